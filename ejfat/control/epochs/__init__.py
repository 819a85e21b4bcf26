"""From weights of workers to calendars, and from ticks to the epochs in which they hold."""
