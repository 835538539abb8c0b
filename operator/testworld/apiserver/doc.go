// Package apiserver is an API server in memory that injects faults, for simulations of the
// operator with its manager, caches and informers.
//
// Objects stand in the fake client of controller-runtime, which merges patches and
// server-side apply as a real one does. Around it is what that client lacks: each call
// takes its time and may fail before or after it took effect, watches lag, break and
// expire, the whole server may be away for a while, generations count, and evictions
// respect disruption budgets.
//
//   - [Server.Client] is a client that reads and writes over the network.
//   - [Server.NewCache] makes the caches of a manager: real informers, whose lists and
//     watches come from here.
//   - [Server.Each] and [Server.Get] show what stands there, to models and checks, which
//     are not on the network.
//
// What goes wrong is drawn by the [Faults] that the server is given. Everything runs
// under the fake clock of testing/synctest.
package apiserver
