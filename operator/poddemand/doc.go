// Package poddemand runs the controller that gives each Pod a CapacityRequest: in the operator's process ([Add]),
// or in one of its own ([Run]).
//
// Its calls that write have a limit of their own, because there is an object and up to three
// writes for each Pod; all else of the operator goes on beside them. What becomes of a Pod is
// decided in package capacityrequest.
package poddemand
