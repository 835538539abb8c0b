// Package aws is Amazon EC2 as a [nstance.dev/server/driver.Driver].
//
// One [Driver] speaks for one account in one region. It is a thin layer over the
// SDK: what a call asks of the cloud, and what an answer means, are functions
// without effects (package rules shows some of them to `config validate`), and each
// method sends one call, or few.
//
// The driver itself is thin. Beside it stand
//   - api: the SDK's clients, and what errors mean
//   - instances: launch, find, list, switch and end machines
//   - balancers: target groups
//   - leader: the network interface that moves with leadership
//   - catalog: instance types and prices, images, the free addresses of subnets
//   - rules: what a configuration is checked by, without the SDK
//
// It leaves to others when and how often to call. The SDK's own retries are off,
// but for one repetition where a connection broke: so the server's token buckets
// are the whole truth about the rate. Every other failure is returned at once,
// with the kind that package api finds in its code.
//
// # Which machines are ours
//
// A machine carries the tags of package identity from its first moment, because
// RunInstances sets them; its instance id is also the client token, so a repeated
// create gives the same machine. EC2 forgets the token some time after the machine
// has ended, and knows nothing of the deletion of a machine that it has not
// made yet. So a Driver remembers for an hour what it was asked to end, and refuses
// to create that. What happens beyond a restart or the hour is the server's matter,
// which keeps tombstones.
//
// A machine that somebody launched as a copy of ours has our tags too. It is told
// by its client token and has no instance id in what [Driver.List] returns. What EC2
// shows as the token of a spot instance is not documented: one whose token is missing or
// another is taken for ours if it was launched when it should have been and no other
// instance has its tag.
//
// # What a caller must know
//
// The API is eventually consistent: see [Driver.Lag]. A terminated machine is
// remembered for about an hour; [Driver.Get] shows it as Deleted, [Driver.List]
// leaves it out. The leader's address ([Driver.AssignLeaderNetwork]) is a network
// interface; the host's operating system has to configure it.
package aws

//go:generate go run ./internal/cmd/gen -out ../..
