"""Tools that look into programs: what they hold, how they use memory."""
