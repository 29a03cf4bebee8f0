// A shared library needs a source of its own; the rest comes from penlight_hosted.
extern const char pl_anchor;
const char pl_anchor = 0;
