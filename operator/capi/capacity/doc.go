// Package capacity says what a pool's next Node will offer, to an autoscaler that has to
// decide while the pool has none.
//
// The cluster autoscaler takes the numbers in a status for what is left for Pods. Too high
// a number makes it add Nodes for Pods that never fit, so what Nodes of this very
// configuration turned out to offer wins over what the provider's table promises
// ([Learn]), and what a person says of the Nodes wins over both ([Of]).
//
// What a status cannot say stands in annotations of the MachinePool: [Annotations] returns
// those that should be there, and [Keep] what is to be changed so that nothing is touched
// that somebody else has set.
//
// Everything here is a function of its arguments.
package capacity
