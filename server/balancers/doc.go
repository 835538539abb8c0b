// Package balancers keeps machines behind the load balancers of their groups.
//
// [Plan] is the decision, and pure: what has to be done for one machine, given what
// it is and what is known of its memberships. A machine joins once its agent has
// reported, and leaves before anything else is done to remove it. What a load
// balancer says is compared with that every five minutes and after a change of
// leader: members of ours that should not be there are taken out, missing ones put
// in, and those of others left alone.
//
// A machine that was a member before a change of leader stays one, though its agent
// has not reported to the new leader yet. Of one that is being removed while nothing
// is known yet, it is assumed that it is a member.
//
// Membership is all that counts here. Whether a member gets traffic is the load
// balancer's own business: it has its health checks, and a target that fails them stays
// a member and gets none until it passes. Nor is a machine replaced for that: a check
// that is wrong, or a service that is down everywhere, would else take a whole group
// with it. That a machine has to go is for its agent and the provider to say.
//
// A [Keeper] carries decisions out. It makes one call at a time for a machine, a
// bounded number in all, and never holds a removal up for longer than its caller
// says. Which machines there are, how they are called and how errors are told is its
// caller's: see [Options].
package balancers
