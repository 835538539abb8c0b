package demandapi

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
	"nstance.dev/protos/rollup"
	"nstance.dev/server/demandloop"
)

// session is one stream of an operator. It implements [demandloop.Session].
type session struct {
	service *Service
	stream  demandpb.ShardService_SessionServer
	caller  Caller
	end     context.CancelCauseFunc
	log     *slog.Logger
	outbox  *outbox
	lane    *lane
	epoch   uint64 // set before anything is sent
	stands  atomic.Bool

	joining sync.Mutex // guards joiner
	joiner  *rollup.Joiner
}

// own is a message that the session sends by itself.
type own struct{ ack *demandpb.Acknowledgement }

// Key implements [demandloop.Message].
func (own) Key() string { return "" }

// Tell implements [demandloop.Session].
func (s *session) Tell(m demandloop.Message) {
	if !s.outbox.put(m) {
		s.end(errSlow)
	}
}

// run opens the session and carries it until it ends. It may leave goroutines behind that end with the
// stream.
func (s *session) run(ctx context.Context) error {
	silent := time.AfterFunc(helloTimeout, func() { s.end(errSilent) })
	first, err := s.stream.Recv()
	silent.Stop()
	if err != nil {
		return ended(err)
	}
	hello := first.GetHello()
	if err := s.service.begin(s.caller, hello); err != nil {
		return err
	}
	snapshot, err := s.service.connect(ctx, s, hello)
	if err != nil {
		return err
	}
	s.epoch = snapshot.Epoch
	s.stands.Store(true)
	if over := context.Cause(ctx); over != nil { // closed was called before there was anything to close
		s.closed(over)
		return over
	}
	s.log.InfoContext(ctx, "demand session opened", "instance", hello.GetOperatorInstance(), "machines", len(snapshot.Nodes))
	go s.guarded(ctx, func() error { return s.send(ctx, snapshot) })
	go s.guarded(ctx, func() error { return s.check(ctx) })
	return s.receive(ctx)
}

// guarded ends the session with the error of a part of it.
func (s *session) guarded(ctx context.Context, part func() error) {
	if err := part(); err != nil && ctx.Err() == nil {
		s.end(err)
	}
}

// closed says that the session is over, once.
func (s *session) closed(why error) {
	if !s.stands.CompareAndSwap(true, false) {
		return
	}
	s.service.disconnect(s)
	reason := "the operator closed it"
	if why != nil {
		reason = why.Error()
	}
	s.log.Info("demand session ended", "reason", reason)
}

// ended is the error of a stream; nil where the operator has closed it.
func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// send sends the snapshot, then what the loop tells.
func (s *session) send(ctx context.Context, snapshot demandloop.Snapshot) error {
	stalled := time.AfterFunc(sendTimeout, func() { s.end(errSlow) })
	stalled.Stop()
	defer stalled.Stop()
	write := func(m *demandpb.ShardMessage) error {
		stalled.Reset(sendTimeout)
		defer stalled.Stop()
		return s.stream.Send(m)
	}
	err := write(s.ack(&demandpb.Acknowledgement{
		Kind: demandpb.Acknowledgement_KIND_HELLO, SnapshotId: snapshot.ID, SnapshotSize: uint32(len(snapshot.Nodes)),
	}))
	for i := 0; err == nil && i < len(snapshot.Nodes); i++ {
		err = write(nodeState(snapshot.Nodes[i], snapshot.ID))
	}
	for err == nil {
		m, waits := s.outbox.take()
		if waits {
			err = write(s.outward(m))
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.outbox.news:
		}
	}
	return err
}

// receive takes the messages of the operator. It waits while the loop has no room for them.
func (s *session) receive(ctx context.Context) error {
	for {
		m, err := s.stream.Recv()
		if err != nil {
			return ended(err)
		}
		if over := context.Cause(ctx); over != nil {
			return over
		}
		switch kind := m.GetKind().(type) {
		case *demandpb.OperatorMessage_Hello:
			return errNoHello
		case *demandpb.OperatorMessage_Rollup:
			s.join(kind.Rollup)
		case *demandpb.OperatorMessage_BootstrapResponse:
			in, invalid := blob(kind.BootstrapResponse)
			err = s.post(ctx, "bootstrap_response", in, invalid)
		case *demandpb.OperatorMessage_ReclaimAck:
			in, invalid := answer(kind.ReclaimAck)
			if err = s.post(ctx, "reclaim_ack", in, invalid); err == nil && invalid == nil {
				s.Tell(own{&demandpb.Acknowledgement{Kind: demandpb.Acknowledgement_KIND_RECLAIM_ACK, Detail: in.Instruction}})
			}
		case *demandpb.OperatorMessage_NodeReports:
			in, invalid := reports(kind.NodeReports)
			err = s.post(ctx, "node_reports", in, invalid)
		}
		if err != nil {
			return err
		}
	}
}

// post hands a message on to the loop, or drops one that is invalid.
func (s *session) post(ctx context.Context, kind string, m demandloop.Inbound, invalid error) error {
	if invalid != nil {
		s.service.opts.Metrics.ignored.WithLabelValues(kind).Inc()
		s.log.WarnContext(ctx, "message of an operator dropped", "message", kind, "reason", invalid.Error())
		return nil
	}
	return s.caller.Link.Post(ctx, s.caller.Tenant, s, m)
}

// join takes a part of a roll-up.
func (s *session) join(m *demandpb.ClusterCapacityNeeds) {
	s.joining.Lock()
	whole, err := s.joiner.Add(m)
	s.joining.Unlock()
	switch {
	case err != nil:
		s.reject(m.GetSequence(), err)
	case whole != nil:
		s.lane.put(whole)
	}
}

// reject says to the operator that a roll-up counts for nothing.
func (s *session) reject(sequence uint64, why error) {
	s.service.opts.Metrics.rejected.WithLabelValues(s.caller.Tenant).Inc()
	s.log.Warn("roll-up rejected; the one before stays in force", "sequence", sequence, "reason", why.Error())
	s.Tell(own{&demandpb.Acknowledgement{Kind: demandpb.Acknowledgement_KIND_ROLLUP_REJECTED, RollupSequence: sequence, Detail: why.Error()}})
}

// check checks the roll-ups that came whole, and hands them on. Beside receive, for a large one takes a while.
func (s *session) check(ctx context.Context) error {
	refused := uint64(0) // the last one that was rejected, which nothing may refer to
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.lane.news:
		}
		r := s.lane.take()
		if r == nil {
			continue
		}
		if r.SameAs != 0 && r.SameAs == refused {
			s.reject(r.Sequence, &rollup.Error{Kind: rollup.ErrReference, Sequence: r.Sequence, Field: "same_as_sequence", Reason: "must be that of a roll-up that was not rejected"})
			continue
		}
		rows, overheads, err := rollup.Decode(s.caller.Cluster, r.Rollup)
		if err != nil {
			refused = r.whole
			s.joining.Lock()
			s.joiner.Forget(r.whole)
			s.joining.Unlock()
			s.reject(r.Sequence, err)
			continue
		}
		if err := s.caller.Link.Post(ctx, s.caller.Tenant, s, received(s.caller.Tenant, r.Rollup, rows, overheads)); err != nil {
			return err
		}
	}
}
