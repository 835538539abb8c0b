// Package dashboard is the terminal screen of "nstance-admin top": groups, instances,
// events and costs of one or several shards, live.
//
// What the screen shows is a [State], which changes by messages alone: [Update] is a pure
// function of a state and a message, and returns besides the new state what is to be asked
// of the servers. [Draw] makes of a state the lines of a screen. [Run] joins both with a
// terminal and with a [Source], which knows the servers; it is the only place with effects.
package dashboard
