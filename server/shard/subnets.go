package shard

import (
	"context"
	"sync"

	"nstance.dev/server/config"
	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
	"nstance.dev/server/placement"
)

// subnets finds out where there is room. Groups that cannot choose before the
// provider has answered wait for it without a worker (L7).
type subnets struct {
	r    *Reign
	book *placement.Book

	mu      sync.Mutex
	asked   map[string]chan struct{}              // by subnet; closed with the answer
	waiting map[fleet.GroupID]map[string]struct{} // subnets whose answers a group waits for
}

func newSubnets(r *Reign) *subnets {
	return &subnets{
		r: r, book: placement.New(r.cloud.subnets != nil),
		asked: map[string]chan struct{}{}, waiting: map[fleet.GroupID]map[string]struct{}{},
	}
}

func wishOf(eff *config.EffectiveGroup) placement.Wish {
	return placement.Wish{Types: eff.InstanceTypes, Subnets: eff.Subnets}
}

// choose claims an offering for one machine of a group and has the provider
// asked what it takes to choose. Neither a claim nor a reason means that the
// group waits for the answers, and is reconciled again with the last of them.
func (s *subnets) choose(group fleet.GroupID, eff *config.EffectiveGroup) placement.Choice {
	c := s.book.Choose(wishOf(eff), s.r.now())
	for _, name := range c.Ask {
		s.ask(name, group, c.Claim == nil)
	}
	return c
}

// chooseNow is choose for a caller who can wait for the answers.
func (s *subnets) chooseNow(ctx context.Context, eff *config.EffectiveGroup) (placement.Choice, error) {
	for {
		c := s.book.Choose(wishOf(eff), s.r.now())
		var answers []<-chan struct{}
		for _, name := range c.Ask {
			answers = append(answers, s.ask(name, fleet.GroupID{}, false))
		}
		if c.Claim != nil || len(c.Ask) == 0 {
			return c, nil
		}
		for _, answered := range answers {
			select {
			case <-answered:
			case <-ctx.Done():
				return c, ctx.Err()
			}
		}
	}
}

// ask has the provider asked about a subnet, unless it is being asked. What it
// returns is closed with the answer.
func (s *subnets) ask(name string, group fleet.GroupID, waits bool) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if waits {
		if s.waiting[group] == nil {
			s.waiting[group] = map[string]struct{}{}
		}
		s.waiting[group][name] = struct{}{}
	}
	answered := s.asked[name]
	if answered == nil {
		answered = make(chan struct{})
		s.asked[name] = answered
		s.r.tasks.Go(func() { s.look(name) })
	}
	return answered
}

// look asks the provider about a subnet and tells whoever waits.
func (s *subnets) look(name string) {
	ctx := s.r.ctx
	s.book.Asking(name)
	free, err := s.r.cloud.checkSubnet(ctx, name)
	switch kind := driver.KindOf(err); {
	case err == nil:
		s.book.Answer(name, free, s.r.now())
	case s.r.stumble(err) || ctx.Err() != nil:
		return
	case kind == driver.MissingRef || kind == driver.Invalid:
		s.r.log.WarnContext(ctx, "no machine can be made in a subnet", "subnet", name, "error", err)
		s.book.Missing(name, "cannot be used: "+err.Error(), s.r.now())
	default:
		// A create is the better question: it is answered for certain.
		s.r.log.WarnContext(ctx, "room of a subnet not known; a create will show", "subnet", name, "error", err)
		s.book.Answer(name, -1, s.r.now())
	}
	for _, group := range s.answered(name) {
		s.r.Enqueue(group)
	}
}

// answered ends the wait for a subnet and returns the groups that now know all
// that they asked for.
func (s *subnets) answered(name string) []fleet.GroupID {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.asked[name])
	delete(s.asked, name)
	var ready []fleet.GroupID
	for group, names := range s.waiting {
		if _, waits := names[name]; !waits {
			continue
		}
		if delete(names, name); len(names) == 0 {
			delete(s.waiting, group)
			ready = append(ready, group)
		}
	}
	return ready
}

// gate holds a group's creates back while it waits for answers.
func (s *subnets) gate(group fleet.GroupID) fleet.Gate {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting[group] == nil {
		return fleet.Gate{}
	}
	timeout := s.r.wanted.config().Server.RequestTimeout.Std()
	return fleet.Gate{Blocked: "waiting to hear how much room its subnets have", By: fleet.BlockerProof, Until: s.r.now().Add(timeout)}
}
