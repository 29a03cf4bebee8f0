"""Generated code: kernel tables now, selective builds on the same table later."""
