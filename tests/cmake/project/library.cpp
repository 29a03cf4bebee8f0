// Something for the archive to hold besides operators.
int library_version() { return 1; }
