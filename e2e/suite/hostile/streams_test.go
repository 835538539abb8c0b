package hostile

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// streams are attempts of root on a machine, whose certificate is good.
func streams() []attempt {
	return slices.Concat(badMessages(), largeMessages(), foreignKeys(), places(), stolenSecrets(), afterTheEnd())
}

// line is the stream of one machine.
type line struct {
	nstancev1.AgentService_ConnectClient
	member
}

// line registers a machine of a tenant and opens its stream.
func (w *world) line(t *testing.T, tenant string, change func(*nstancev1.RegisterClientRequest)) line {
	t.Helper()
	m := w.member(t, tenant, change)
	l := line{w.hello(t, m.cert, m.id), m}
	l.wait(t, "welcome", func(m *nstancev1.ServerMessage) bool { return m.GetWelcome() != nil })
	return l
}

// wait reads messages until one is what is waited for. It returns why there is none.
func (l line) wait(t *testing.T, what string, is func(*nstancev1.ServerMessage) bool) string {
	t.Helper()
	type received struct {
		message *nstancev1.ServerMessage
		err     error
	}
	patience := time.After(20 * time.Second)
	for {
		got := make(chan received, 1)
		go func() {
			m, err := l.Recv()
			got <- received{m, err}
		}()
		var r received
		select {
		case r = <-got:
		case <-patience: // the server ends the stream then
			_ = l.CloseSend()
			r = <-got
		}
		if r.err != nil {
			return fmt.Sprintf("no %s: %s", what, said(r.err))
		}
		if is(r.message) {
			return ""
		}
	}
}

// end is how the server ends a stream.
func (l line) end() string {
	for {
		if _, err := l.Recv(); err != nil {
			return reason(err)
		}
	}
}

func helloOf(id identity.ID) *nstancev1.AgentMessage {
	return &nstancev1.AgentMessage{Message: &nstancev1.AgentMessage_Hello{Hello: &nstancev1.Hello{InstanceId: id.String()}}}
}

func reportOf(id identity.ID, change func(*nstancev1.HealthReport)) *nstancev1.AgentMessage {
	r := &nstancev1.HealthReport{InstanceId: id.String()}
	if change != nil {
		change(r)
	}
	return &nstancev1.AgentMessage{Message: &nstancev1.AgentMessage_Report{Report: r}}
}

func keysOf(keys ...*nstancev1.AgentPublicKey) *nstancev1.AgentMessage {
	return &nstancev1.AgentMessage{Message: &nstancev1.AgentMessage_PublicKeys{PublicKeys: &nstancev1.PublicKeys{RequestId: "k", Keys: keys}}}
}

// badMessages break the rules of a stream: each ends it.
func badMessages() (rows []attempt) {
	other := func(t *testing.T, w *world) identity.ID { return identity.ID(w.foreign(t)) }
	for _, r := range []struct {
		name, held string
		first      func(t *testing.T, w *world, m member) *nstancev1.AgentMessage
		second     func(t *testing.T, w *world, m member) *nstancev1.AgentMessage // nil: none
	}{
		{"hello of another instance", "PermissionDenied FOREIGN_INSTANCE", func(t *testing.T, w *world, _ member) *nstancev1.AgentMessage { return helloOf(other(t, w)) }, nil},
		{"hello of no instance", "PermissionDenied FOREIGN_INSTANCE", func(*testing.T, *world, member) *nstancev1.AgentMessage { return helloOf("../" + "x") }, nil},
		{"a report before hello", "FailedPrecondition HELLO_EXPECTED", func(_ *testing.T, _ *world, m member) *nstancev1.AgentMessage { return reportOf(m.id, nil) }, nil},
		{"keys before hello", "FailedPrecondition HELLO_EXPECTED", func(*testing.T, *world, member) *nstancev1.AgentMessage { return keysOf() }, nil},
		{"an empty message before hello", "FailedPrecondition HELLO_EXPECTED", func(*testing.T, *world, member) *nstancev1.AgentMessage { return &nstancev1.AgentMessage{} }, nil},
		{"a report of another instance", "PermissionDenied FOREIGN_INSTANCE", sayHello, func(t *testing.T, w *world, _ member) *nstancev1.AgentMessage { return reportOf(other(t, w), nil) }},
		{"hello twice", "FailedPrecondition SECOND_HELLO", sayHello, sayHello},
	} {
		rows = append(rows, attempt{"S11", r.name, r.held, func(t *testing.T, w *world) string {
			m := w.member(t, attacker, nil)
			stream, err := w.agent(t, m.cert).Connect(t.Context())
			if err != nil {
				return said(err)
			}
			_ = stream.Send(r.first(t, w, m)) // what comes of it says Recv
			if r.second != nil {
				_ = stream.Send(r.second(t, w, m))
			}
			return line{stream, m}.end()
		}})
	}
	return append(rows, attempt{"S22", "a stream without a word", "DeadlineExceeded NO_HELLO", func(t *testing.T, w *world) string {
		m := w.member(t, attacker, nil)
		stream, err := w.agent(t, m.cert).Connect(t.Context())
		if err != nil {
			return said(err)
		}
		return line{stream, m}.end()
	}})
}

func sayHello(_ *testing.T, _ *world, m member) *nstancev1.AgentMessage { return helloOf(m.id) }

// largeMessages want the server's memory.
func largeMessages() (rows []attempt) {
	for _, r := range []struct {
		name, held string
		message    func(m member) *nstancev1.AgentMessage
	}{
		{"hello of 64 MiB", "ResourceExhausted", func(m member) *nstancev1.AgentMessage {
			h := helloOf(m.id)
			h.GetHello().AgentVersion = strings.Repeat("v", 64<<20)
			return h
		}},
		{"a report of 64 MiB", "ResourceExhausted", func(m member) *nstancev1.AgentMessage {
			return reportOf(m.id, func(r *nstancev1.HealthReport) { r.Uptime = strings.Repeat("u", 64<<20) })
		}},
	} {
		rows = append(rows, attempt{"F47", r.name, r.held, func(t *testing.T, w *world) string {
			m := w.member(t, attacker, nil)
			stream := w.hello(t, m.cert, m.id)
			if strings.HasPrefix(r.name, "hello") {
				var err error
				if stream, err = w.agent(t, m.cert).Connect(t.Context()); err != nil {
					return said(err)
				}
			}
			_ = stream.Send(r.message(m)) // what comes of it says Recv
			code, _, _ := strings.Cut(line{stream, m}.end(), " ")
			return code
		}})
	}
	for name, change := range map[string]func(*nstancev1.HealthReport){
		"a report with texts of almost 4 MiB": func(r *nstancev1.HealthReport) {
			r.Uptime, r.Version = strings.Repeat("\x1b", 2<<20), strings.Repeat("é", 1<<20-100)
		},
		"a report of 30,000 files": func(r *nstancev1.HealthReport) {
			r.Files = map[string]*nstancev1.FileStatus{}
			for i := range 30_000 {
				r.Files[fmt.Sprint("../../file-", i)] = &nstancev1.FileStatus{State: &nstancev1.FileStatus_Error{Error: "x"}}
			}
		},
	} {
		rows = append(rows, attempt{"F47", name, "nothing of it is kept", func(t *testing.T, w *world) string {
			before := w.memory(t)
			l := w.line(t, attacker, nil)
			for n := range 4 {
				if err := l.Send(reportOf(l.id, func(r *nstancev1.HealthReport) { change(r); r.Count = int64(n + 1) })); err != nil {
					return l.end()
				}
			}
			if _, err := w.operator(t, attacker).GetInstanceStatus(call(t), &nstancev1.GetInstanceStatusRequest{InstanceId: l.id.String()}); err != nil {
				return said(err)
			}
			if after := w.memory(t); after > before+128<<20 {
				return fmt.Sprintf("the server has grown from %d to %d MiB", before>>20, after>>20)
			}
			return "nothing of it is kept"
		}})
	}
	slices.SortFunc(rows, func(a, b attempt) int { return strings.Compare(a.name, b.name) })
	return rows
}
