package agents

import (
	"context"
	"runtime/debug"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/lease"
	"nstance.dev/server/refusal"
)

// Connect serves one agent's stream until it ends. Nil means that the agent has
// said goodbye. Nobody changes peer meanwhile.
//
// The goroutine of the call does nothing but wait until then: a stack that has
// grown hardly ever shrinks, and this one is kept for as long as the agent stays.
func (a *Service) Connect(peer *identity.Peer, conn Conn) error {
	s := newStream(peer, conn, newPace(a.interval(), a.opts.Unpaced))
	s.serve(&a.handler)()
	go a.begin(peer, s)
	<-s.done
	a.opts.Parking.remove(s)
	return s.end()
}

// begin admits the agent and waits for what it has to say.
func (a *Service) begin(peer *identity.Peer, s *stream) {
	if err := a.Admit(*peer); err != nil {
		s.finish(err)
		return
	}
	s.endAfter(helloTimeout, errNoHello)
	go s.receive()
}

// Welcome tells every connected agent what has changed for it.
func (a *Service) Welcome() {
	for _, s := range a.streams.all() {
		a.line(s).Offer(a.welcome(s.id))
	}
}

// End cuts the stream of a deleted instance off (S13).
func (a *Service) End(id identity.ID) { a.streams.end(id) }

// Close lets go of every stream, because this server does not lead any more: where the lease
// was lost they are parked, else they end. No other is attached afterwards.
func (a *Service) Close() {
	keep, limit := keeps(context.Cause(a.ctx)), parkLimit(a.interval())
	a.streams.close(func(s *stream) bool { return keep && a.opts.Parking.add(s, limit) })
}

// Resume gives the streams that were parked to this service.
func (a *Service) Resume() {
	for s := range a.opts.Parking.clear() {
		a.opts.Go(func() { a.resume(s) })
	}
}

// resume goes on with a stream, and tells the agent so, unless nobody knows the agent any
// more or there is a newer stream of it.
func (a *Service) resume(s *stream) {
	unpark := s.serve(&a.handler)
	defer unpark()
	if err := a.readmit(s); err != nil {
		s.finish(err)
		return
	}
	a.introduce(s)
}

// readmit asks of a parked stream what was asked when it was opened.
func (a *Service) readmit(s *stream) error {
	row, _ := a.opts.Cache.Instance(s.id)
	err := a.Admit(identity.Peer{
		ID: s.id, Tenant: row.Group.Tenant, Cluster: a.opts.Cluster, Shard: a.opts.Shard, Serial: s.serial, NotAfter: s.expires,
	})
	switch {
	case err != nil:
		return err
	case a.streams.has(s.id):
		return errReplaced
	}
	return a.attach(s)
}

// attach makes this the stream of its instance, unless either has ended since the
// stream was admitted: then nobody would take it out again (S13).
func (a *Service) attach(s *stream) error {
	replaced, err := a.attachCounting(s)
	if replaced > cloneLimit {
		a.reportClone(s.id)
	}
	return err
}

// attachCounting does what attach does without the alarm, and returns how many streams of the instance were
// replaced lately.
func (a *Service) attachCounting(s *stream) (replaced int, err error) {
	s.entry.Lock()
	defer s.entry.Unlock()
	defer a.turns.of(s.id)()
	if replaced, err = a.streams.add(s, a.opts.Now()); err != nil {
		return replaced, err
	}
	a.opts.Files.Connect(s.id, a.line(s))
	if _, ok := a.opts.Instances.Known(s.id); !ok {
		a.detach(s)
		return replaced, errDeleted
	}
	s.owner = a
	a.opts.Liveness.Connected(s.id)
	return replaced, nil
}

// detach detaches a stream from its instance, unless a newer one has taken its place. It reports whether it
// was the instance's stream. The caller has the instance's turn.
func (a *Service) detach(s *stream) bool {
	if !a.streams.remove(s) {
		return false
	}
	a.opts.Files.Disconnect(s.id, a.line(s))
	a.machines.disconnected(s)
	return true
}

// reportClone raises the alarm where two streams keep replacing each other. Neither machine
// is deleted for that alone.
func (a *Service) reportClone(id identity.ID) {
	row, _ := a.opts.Cache.Instance(id)
	row.ID = id
	a.opts.Log.Error("two machines have one identity: their streams keep replacing each other", "instance", id)
	a.opts.Failed(row, "auth", "two machines connect with the identity of this instance; one may be a clone")
}

// streamEnded implements [handler].
func (a *Service) streamEnded(s *stream, why error) {
	defer a.turns.of(s.id)()
	if a.detach(s) && a.ctx.Err() == nil {
		a.opts.Liveness.Disconnected(s.id, why == nil)
		a.opts.Log.Info("agent disconnected", "instance", s.id, "graceful", why == nil)
	}
}

// leads implements [handler]: nothing leaves on a stream without that proof, certificates
// least of all (S2).
func (a *Service) leads() bool { return lease.Check(a.ctx) == nil }

// room implements [handler].
func (a *Service) room(id identity.ID) {
	a.opts.Files.Wake(id)
	a.woken(id)
}

// handle implements [handler]. It ends the stream where dealing with its message panics: one
// agent's message must not end the server.
func (a *Service) handle(s *stream, msg *nstancev1.AgentMessage) (err error) {
	defer func() {
		if p := recover(); p != nil {
			a.opts.Log.Error("message of an agent panicked", "instance", s.id, "panic", p, "stack", string(debug.Stack()))
			err = refusal.New(refusal.Internal, "INTERNAL", "internal error")
		}
	}()
	return a.act(s, msg)
}

// act acts on one message. Members that this server does not know are left
// alone, for agents may be newer.
func (a *Service) act(s *stream, msg *nstancev1.AgentMessage) error {
	hello := msg.GetHello()
	switch {
	case !s.heard.greeted && hello == nil:
		return refusal.New(refusal.FailedPrecondition, "HELLO_EXPECTED", "the first message must be hello")
	case s.heard.greeted && hello != nil:
		return refusal.New(refusal.FailedPrecondition, "SECOND_HELLO", "hello came twice")
	case hello != nil:
		return a.greet(s, hello)
	}
	switch m := msg.Message.(type) {
	case *nstancev1.AgentMessage_Report:
		return a.report(s, m.Report)
	case *nstancev1.AgentMessage_PublicKeys:
		return a.storeKeys(s, m.PublicKeys)
	case *nstancev1.AgentMessage_Cluster:
		a.bindings.report(s, m.Cluster)
	case *nstancev1.AgentMessage_MachineStatus:
		a.machines.status(s, m.MachineStatus)
	case *nstancev1.AgentMessage_MachineLogs:
		a.machines.logs(s, m.MachineLogs)
	case *nstancev1.AgentMessage_Renew:
		// Storage may take its time. The stream's end is known at once all the same.
		ctx := s.conn.Context()
		defer context.AfterFunc(ctx, func() { s.finish(ctx.Err()) })()
		return a.renew(s, m.Renew)
	}
	return nil
}

func (a *Service) greet(s *stream, hello *nstancev1.Hello) error {
	if err := s.checkOwner(hello.InstanceId); err != nil {
		return err
	}
	s.noteCapabilities(hello.Capabilities)
	s.noteBuilder(printable(hello.AgentVersion), hello.Capabilities)
	if err := a.attach(s); err != nil {
		return err
	}
	s.endAfter(s.expires.Sub(a.opts.Now()), refusal.ErrCertificateExpired)
	s.heard.greeted = true
	a.opts.Log.Info("agent connected", "instance", s.id, "agent_version", printable(hello.AgentVersion),
		"joins_clusters", s.offers.clusters.able.Load(), "builds_machines", s.offers.machines.able.Load())
	a.introduce(s)
	return nil
}

// introduce tells the agent who leads and what is wanted of it.
func (a *Service) introduce(s *stream) {
	line := a.line(s)
	line.Offer(a.welcome(s.id))
	a.opts.Files.Greet(s.id, line)
	a.bindings.greeted(s)
	a.machines.greeted(s)
}
