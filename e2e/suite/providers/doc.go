// Package providers tests the servers of the clouds as a whole: real processes of
// nstance-server, a server of the S3 protocol, and a fake of the cloud behind its real
// API, whose machines are processes that run the user data which the server rendered,
// and in it the real agent.
//
// A [Cloud] is what a fake has to say of itself; [AWS], [Google] and [Proxmox] are
// those. A [World] is a shard over one of them: two servers, each at an address of its
// own, and the [Address] that leads to whichever of them leads. The tests are the same
// for all clouds, `make e2e-providers`: a story, and every kind of [Trouble] that a cloud
// can have.
//
// A fake proves that our programs agree with our reading of a cloud's API. What a cloud
// really does, the contract suite against an account shows: `make live-aws` and the like.
package providers
