// Package awsfake stands in for an account of AWS: Amazon EC2, Elastic Load
// Balancing and the instance metadata service, over their real wire protocols, so
// that the SDK runs against it unmodified.
//
// A [Cloud] is an [http.Handler]. It keeps state, checks signatures, refuses what
// the real APIs refuse in their own error codes, pages, throttles by the
// documented token buckets, shows changes only after a lag, runs out of room, and
// goes wrong on demand through its [wire.Gate]. Machines are entries in a table;
// with [Options].Run they are also something that runs, such as a process.
//
// What a request may look like is not written down here: the names and types of
// all parameters are read off the SDK, which is generated from the models that AWS
// publishes. What the answers mean is our reading of the API reference; [Repeat] is for
// tests that the SDK reads all that they say. A test
// against this package proves that a client agrees with that reading, and not that
// it agrees with AWS.
//
// Time is that of the process; in a bubble of testing/synctest that is the
// bubble's. A Cloud's methods are safe for concurrent use.
package awsfake
