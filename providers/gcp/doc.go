// Package gcp is Google Compute Engine as a [driver.Driver].
//
// A machine is an instance of one zone of one project. Its name is its instance
// id, and so is the request id of the call that makes it: the name makes a second
// machine of one id impossible, and the request id has the cloud answer a
// repeated call with what became of the first one, even after the machine was
// deleted. Labels say whose a machine is; network tags are firewall targets and
// nothing else.
//
// Creates wait for the operation that they begin, because what the zone has no
// room for shows there only. A call whose operation is not done when the caller's
// time is over is [driver.Ambiguous]: the same call again finds the operation.
// Deletes do not wait.
//
// The driver itself is thin. Beside it stand
//   - api: the SDK's clients, operations, and what errors mean
//   - instances: make, find, list, switch and end machines
//   - balancers: instance groups and network endpoint groups
//   - leader: the address that moves with leadership
//   - catalog: machine types, and the free addresses of subnets
//   - rules: what a configuration is checked by, without the SDK
//
// The package leaves pacing, time-outs and repetition to its caller: the SDK's own
// retries are off. What an error of the cloud means stands in package api, and what
// is asked of the user's arguments in package rules.
package gcp

//go:generate go run ./internal/cmd/gen -out ../..
