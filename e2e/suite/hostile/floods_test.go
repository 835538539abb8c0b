package hostile

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/emptypb"

	"nstance.dev/e2e/env/box"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// What a flood comes to.
const (
	othersServed = "others are answered"
	heldBack     = "it is held back"
	isTold       = "the tenant is told of the machine"
)

// floods are attempts to keep a server from its work, of those who are let in and of those
// who are not. They are made at the same time, on a cluster of their own: how fast it is
// under them is no matter, only that it answers the others and holds back who floods.
func floods() []attempt {
	return slices.Concat(streamFloods(), callFloods(), connectionFloods(), frameFloods())
}

// others makes calls as everybody else does while something goes on, and one after it.
func (w *world) others(t *testing.T, meanwhile func(ctx context.Context)) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var flood sync.WaitGroup
	flood.Go(func() { meanwhile(ctx) })
	defer flood.Wait()
	defer cancel()
	ended := make(chan struct{})
	go func() { flood.Wait(); close(ended) }()
	for again := true; again; {
		select {
		case <-ended:
			again = false
		default:
		}
		if _, err := w.operator(t, victim).ListGroups(call(t), &emptypb.Empty{}); err != nil {
			return "an operator: " + said(err)
		}
	}
	return othersServed
}

// within has a stream for a moment at most: what is held back would take many times as
// long. The moment begins with the stream: on a busy box a connection may take as long.
func (w *world) within(t *testing.T, do func(l line)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	end := time.AfterFunc(time.Minute, cancel)
	defer end.Stop()
	l := w.flooder(t, ctx)
	end.Reset(3 * time.Second)
	do(l)
}

// flooder is a stream that ends with a context.
func (w *world) flooder(t *testing.T, ctx context.Context) line {
	t.Helper()
	m := w.member(t, attacker, nil)
	stream, err := w.agent(t, m.cert).Connect(ctx)
	if err == nil {
		err = stream.Send(helloOf(m.id))
	}
	if err != nil {
		t.Fatal(err)
	}
	return line{stream, m}
}

// streamFloods are those of one agent, whose certificate is good.
func streamFloods() []attempt {
	return []attempt{
		{"S22", "reports at full speed", heldBack, func(t *testing.T, w *world) string {
			sent := 0
			w.within(t, func(l line) {
				long := strings.Repeat("u", 100_000) // so that few fit into what is on its way
				for sent < 60 && l.Send(reportOf(l.id, func(r *nstancev1.HealthReport) { r.Count, r.Uptime = int64(sent+1), long })) == nil {
					sent++
				}
			})
			if sent == 60 {
				return fmt.Sprintf("%d reports are taken", sent)
			}
			return heldBack
		}},
		{"S22", "keys at full speed", heldBack, func(t *testing.T, w *world) string {
			answers := 0
			w.within(t, func(l line) {
				for ; answers < 30; answers++ {
					_ = l.Send(keysOf()) // the end of the stream shows in the answer
					if l.wait(t, "answer", func(m *nstancev1.ServerMessage) bool { return m.GetKeysStored() != nil }) != "" {
						return
					}
				}
			})
			if answers == 30 {
				return fmt.Sprintf("%d messages are answered", answers)
			}
			return heldBack
		}},
		{"S22", "renewals at full speed", "two certificates", func(t *testing.T, w *world) string {
			l := w.line(t, attacker, nil)
			for range 6 {
				_ = l.Send(renewalOf(t, l.key)) // the end of the stream shows in the answer
			}
			granted := 0
			for range 6 {
				if missing := l.wait(t, "answer", func(m *nstancev1.ServerMessage) bool {
					if len(m.GetRenewed().GetClientCertificatePem()) > 0 {
						granted++
					}
					return m.GetRenewed() != nil
				}); missing != "" {
					return missing
				}
			}
			if granted > 2 {
				return fmt.Sprintf("%d certificates", granted)
			}
			return "two certificates"
		}},
		{"S22", "a thousand streams of one identity", othersServed, func(t *testing.T, w *world) string {
			return w.others(t, func(ctx context.Context) { w.manyStreams(t, ctx, 1000) })
		}},
		{"F35", "streams of one identity that end each other", isTold, func(t *testing.T, w *world) string {
			return w.event(t, func() string {
				m := w.member(t, attacker, nil)
				for range 8 {
					w.connect(t, m.cert, m.id) // it stays until a newer one ends it
				}
				return m.id.String()
			})
		}},
	}
}

// manyStreams opens streams with one certificate, on a few connections.
func (w *world) manyStreams(t *testing.T, ctx context.Context, n int) {
	t.Helper()
	m := w.member(t, attacker, nil)
	var opening sync.WaitGroup
	defer opening.Wait()
	for range 4 {
		c := w.agent(t, m.cert)
		opening.Go(func() {
			for range n / 4 {
				ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
				defer cancel() // all stay open until then
				if stream, err := c.Connect(ctx); err == nil {
					_ = stream.Send(helloOf(m.id)) // what comes of it is of no interest
				}
			}
		})
	}
}

// event does something until the tenant is told of the machine that it was done with. Once
// may be before the server has begun to tell.
func (w *world) event(t *testing.T, do func() string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	events, err := w.operator(t, attacker).WatchErrors(ctx, &emptypb.Empty{})
	if err != nil {
		cancel()
		return said(err)
	}
	about := make(chan string, 100)
	var hearing sync.WaitGroup
	defer hearing.Wait()
	defer cancel()
	hearing.Go(func() {
		for event, err := events.Recv(); err == nil; event, err = events.Recv() {
			select {
			case about <- event.GetInstanceId():
			case <-ctx.Done(): // more is told than the row waits for
			}
		}
	})
	for range 3 {
		id := do()
		patience := time.After(4 * time.Second)
		for waiting := true; waiting; {
			select {
			case other := <-about:
				if other == id {
					return isTold
				}
			case <-patience:
				waiting = false
			}
		}
	}
	return "nobody is told"
}

// callFloods are those of the registration and of the operator port.
func callFloods() []attempt {
	return []attempt{
		{"F41", "tokens that are none pass the limit", heldBack, func(t *testing.T, w *world) string { return w.manyTokens(t, "x") }},
		{"F41", "forged tokens pass the limit", heldBack, func(t *testing.T, w *world) string {
			token := w.tokenOf(t, w.victim).sign(t)
			return w.manyTokens(t, token[:strings.LastIndexByte(token, '.')+1]+strings.Repeat("A", 86))
		}},
		{"F41", "each token that is none writes a line into the log", "few lines", func(t *testing.T, w *world) string {
			lines := func() int { return strings.Count(w.server.Output(), "RegisterAgent") }
			before := lines()
			w.manyTokens(t, "y")
			if n := lines() - before; n > 150 {
				return fmt.Sprintf("%d lines of 300 calls", n)
			}
			return "few lines"
		}},
		{"F41", "while one source floods, a machine with its nonce registers", letIn, func(t *testing.T, w *world) string {
			client := w.newcomer(t) // one connection, one source
			for range 100 {
				_, _ = client.RegisterAgent(call(t), box.Registration(t, "z", box.NewKey(t))) // refused, or limited
			}
			_, err := client.RegisterAgent(call(t), box.Registration(t, w.outstanding(t, attacker).token, box.NewKey(t)))
			return said(err)
		}},
		{"F48", "a tenant that has the configuration read again and again", othersServed, func(t *testing.T, w *world) string {
			return w.others(t, func(ctx context.Context) {
				c := w.operator(t, attacker)
				for range 300 {
					_, _ = c.RefreshConfig(ctx, &emptypb.Empty{}) // nothing is read
				}
			})
		}},
	}
}

// manyTokens registers with a token again and again, from one source.
func (w *world) manyTokens(t *testing.T, token string) string {
	t.Helper()
	client, key := w.newcomer(t), box.NewKey(t)
	limited := 0
	for range 300 {
		if _, err := client.RegisterAgent(call(t), box.Registration(t, token, key)); reasonOf(err) == "RATE_LIMITED" {
			limited++
		}
	}
	if limited == 0 {
		return "300 calls, and none is limited"
	}
	return heldBack
}
