package hostile

import (
	"context"
	"crypto/ed25519"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/emptypb"

	"nstance.dev/e2e/env/box"
	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// alarmed is what an attempt comes to that the tenant is told of.
const alarmed = "refused, and an alarm names the machine"

// theft is the use of what was stolen from a machine: its nonce, or the directory with its
// key and certificate. It is refused where it can be told from the machine, and where two
// have what one may have, the tenant is told.
func theft() (rows []attempt) {
	for _, s := range []struct {
		promise, name, word string // a word of the alarm
		steal               func(t *testing.T, w *world, m member) (answer string)
	}{
		{"F40", "a nonce that was used comes with another key, and nobody hears of it", "nonce", func(t *testing.T, w *world, m member) string {
			return outcome(w.register(t, asAgent, m.token) == used, "let in")
		}},
		{"F40", "a thief renews a stolen certificate for a key of its own", "another key", func(t *testing.T, w *world, m member) string {
			renewed := w.renew(t, m, box.NewKey(t))
			return outcome(renewed.GetCode() != "" && len(renewed.GetClientCertificatePem()) == 0, "it has a certificate")
		}},
		{"F40", "a thief renews a stolen certificate twice and takes the machine over", "superseded", func(t *testing.T, w *world, m member) string {
			thief := m
			for range 2 {
				renewed := w.renew(t, thief, m.key)
				if renewed.GetCode() != "" {
					return "not renewed: " + renewed.GetMessage()
				}
				thief.cert = pair(t, renewed.ClientCertificatePem, m.key)
				if answer := w.connect(t, thief.cert, m.id); answer != letIn { // what was renewed counts once it is used
					return "the thief: " + answer
				}
			}
			return outcome(strings.Contains(w.connect(t, m.cert, m.id), "CERTIFICATE_SUPERSEDED"), "the machine is let in as well")
		}},
		{"F43", "a thief of the authority's key makes a certificate for a machine", "key is not the instance's", func(t *testing.T, w *world, m member) string {
			f := w.twinOf(t, m.cert)
			f.key = box.NewKey(t)
			return outcome(w.connect(t, f.sign(t), m.id) != letIn, "let in")
		}},
	} {
		rows = append(rows, attempt{s.promise, s.name, alarmed, func(t *testing.T, w *world) string {
			return w.alarm(t, s.word, func(m member) string { return s.steal(t, w, m) })
		}})
	}
	return rows
}

// outcome is empty while something is refused, and else what came of it.
func outcome(refused bool, otherwise string) string {
	if refused {
		return ""
	}
	return otherwise
}

// alarm has somebody steal from a new machine and returns whether the tenant is told. What
// is told goes to those who listen, and nobody knows from when on one is listened to: so it
// is done again with another machine where nothing is heard.
func (w *world) alarm(t *testing.T, word string, steal func(m member) string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := w.operator(t, identity.DefaultTenant).WatchErrors(ctx, &emptypb.Empty{})
	if err != nil {
		cancel()
		return said(err)
	}
	told := make(chan *nstancev1.ErrorEvent, 256)
	var hearing sync.WaitGroup
	defer hearing.Wait()
	defer cancel()
	hearing.Go(func() {
		for event, err := stream.Recv(); err == nil; event, err = stream.Recv() {
			select {
			case told <- event:
			default: // the row has what it wants
			}
		}
	})
	for range 3 {
		m := w.member(t, identity.DefaultTenant, nil)
		if wrong := steal(m); wrong != "" {
			return wrong
		}
		for limit := time.After(5 * time.Second); ; {
			select {
			case event := <-told:
				if event.GetInstanceId() == m.id.String() && strings.Contains(event.Error, word) {
					return alarmed
				}
				continue
			case <-limit:
			}
			break
		}
	}
	return "refused, and nobody is told"
}

// renew asks for a certificate for a key, on a stream of its own.
func (w *world) renew(t *testing.T, m member, key ed25519.PrivateKey) *nstancev1.Renewed {
	t.Helper()
	l := line{w.hello(t, m.cert, m.id), m}
	if err := l.Send(renewalOf(t, key)); err != nil {
		t.Fatal(err)
	}
	var renewed *nstancev1.Renewed
	if missing := l.wait(t, "renewal", func(m *nstancev1.ServerMessage) bool {
		renewed = m.GetRenewed()
		return renewed != nil
	}); missing != "" {
		t.Fatal(missing)
	}
	return renewed
}
