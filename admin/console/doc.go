// Package console serves the web console: the pages, what is on them as it changes, and,
// if it is allowed to, what is done with them.
//
// It acts with one identity, that of whoever started it, so it lets nobody in but whom its
// owner has given the printed address to. The token in that address works once: it is
// exchanged for a cookie that scripts cannot read and that no other site's request
// carries. A request that names another host than this box is refused, whatever it
// carries, and so is one that another site's page makes. What changes something needs, in
// addition, a header that only the page itself can know, and a console that was started
// with leave to change things.
//
// All browsers share one [hub.Hub]: what is shown costs the shards the same however many
// look. Calls go through one [gateway.Gateway].
package console
