// Package cloud is a provider for simulations of demand mode, whose machines take their time: to
// boot, to join a cluster, to leave it and to be deleted.
//
// A machine goes through stages, each after a time of its type. What goes wrong is said before:
// room that a type has, and a script of outcomes for its next creates. A create is repeated with
// the id of its machine and makes one; an id is never used a second time.
//
// It also knows what no decision may be based on, the truth: which clusters a machine ever ran,
// and which ids there ever were. The checks of the simulator are held against it.
//
// A Cloud is for one goroutine. Nothing in it depends on the order of a map.
package cloud
