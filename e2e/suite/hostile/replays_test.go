package hostile

import (
	"crypto/ed25519"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"nstance.dev/e2e/env/box"
	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// used is the answer to a good nonce that has let another key in.
const used = "AlreadyExists ALREADY_REGISTERED: the nonce has been used"

// replays are good nonces in the wrong hands, and the proper use beside them: what is
// forged here would be let in if nothing were wrong with it.
var replays = []attempt{
	{"S9", "agent: a nonce that is used lets the same key in again", letIn, func(t *testing.T, w *world) string {
		m := w.member(t, identity.DefaultTenant, nil)
		return w.ask(t, asAgent, box.Registration(t, m.token, m.key))
	}},
	{"S9", "agent: a nonce that is used, with another key", used, func(t *testing.T, w *world) string {
		m := w.member(t, identity.DefaultTenant, nil)
		return w.register(t, asAgent, m.token)
	}},
	{"S9", "agent: a nonce that is used, in another spelling", refused, func(t *testing.T, w *world) string {
		m := w.member(t, identity.DefaultTenant, nil)
		return w.register(t, asAgent, m.token[:len(m.token)-1]+unusedBits(m.token[len(m.token)-1]))
	}},
	{"S9", "agent: a nonce that is used, signed again", refused, func(t *testing.T, w *world) string {
		m := w.member(t, identity.DefaultTenant, nil)
		return w.register(t, asAgent, w.tokenOf(t, m.outstanding).sign(t))
	}},
	{"S9", "agent: twenty keys at once with one nonce", "1 x let in, 19 x " + used, func(t *testing.T, w *world) string {
		return w.race(t, asAgent, w.outstanding(t, identity.DefaultTenant).token)
	}},
	{"S13", "agent: the nonce of a machine that is deleted", refused, func(t *testing.T, w *world) string {
		o := w.outstanding(t, "acme")
		if _, err := w.operator(t, o.tenant).DeleteInstance(call(t), &nstancev1.DeleteInstanceRequest{InstanceId: o.id.String(), SkipDrain: true}); err != nil {
			t.Fatal(err)
		}
		return w.register(t, asAgent, o.token)
	}},
	{"S13", "agent: the nonce of a machine that is deleted after it has registered, with the same key", refused, func(t *testing.T, w *world) string {
		m := w.member(t, "acme", nil)
		if _, err := w.operator(t, m.tenant).DeleteInstance(call(t), &nstancev1.DeleteInstanceRequest{InstanceId: m.id.String(), SkipDrain: true}); err != nil {
			t.Fatal(err)
		}
		return w.ask(t, asAgent, box.Registration(t, m.token, m.key))
	}},
	{"S11", "agent: a nonce says whose the certificate is, and the caller does not", "acme", func(t *testing.T, w *world) string {
		m := w.member(t, "acme", func(req *nstancev1.RegisterClientRequest) { req.Hostname = "default" })
		return strings.Join(m.cert.Leaf.Subject.Organization, ",")
	}},
	{"F42", "agent: the nonce of an operator", refused, func(t *testing.T, w *world) string {
		return w.register(t, asAgent, w.operatorToken(t).sign(t))
	}},
	{"F42", "operator: the nonce of a machine", refused, func(t *testing.T, w *world) string {
		return w.register(t, asOperator, w.outstanding(t, identity.DefaultTenant).token)
	}},
	{"S9", "operator: a nonce that is proper", letIn, func(t *testing.T, w *world) string {
		return w.register(t, asOperator, w.operatorToken(t).sign(t))
	}},
	{"S9", "operator: a nonce that is used, with another key", used, func(t *testing.T, w *world) string {
		token := w.spent(t)
		return w.register(t, asOperator, token)
	}},
	{"S9", "operator: a nonce that is used, in another spelling", refused, func(t *testing.T, w *world) string {
		token := w.spent(t)
		return w.register(t, asOperator, token[:len(token)-1]+unusedBits(token[len(token)-1]))
	}},
	{"S9", "operator: a nonce that is used, with its scalar raised", refused, func(t *testing.T, w *world) string {
		k := w.operatorToken(t)
		if answer := w.register(t, asOperator, k.sign(t)); answer != letIn {
			t.Fatal(answer)
		}
		return w.register(t, asOperator, k.signedBy(t, func(text []byte) []byte { return raised(ed25519.Sign(k.key, text)) }))
	}},
	{"S9", "operator: twenty keys at once with one nonce", "1 x let in, 19 x " + used, func(t *testing.T, w *world) string {
		return w.race(t, asOperator, w.operatorToken(t).sign(t))
	}},
}

// spent is the nonce of an operator that has registered.
func (w *world) spent(t *testing.T) string {
	t.Helper()
	token := w.operatorToken(t).sign(t)
	if answer := w.register(t, asOperator, token); answer != letIn {
		t.Fatalf("a proper nonce: %s", answer)
	}
	return token
}

// race shows one nonce with twenty keys at once, and returns how many got which answer.
func (w *world) race(t *testing.T, as door, token string) string {
	t.Helper()
	var requests []*nstancev1.RegisterClientRequest
	for range 20 {
		requests = append(requests, box.Registration(t, token, box.NewKey(t)))
	}
	var mu sync.Mutex
	answers := map[string]int{}
	var wg sync.WaitGroup
	for _, req := range requests {
		wg.Go(func() {
			answer := w.ask(t, as, req)
			mu.Lock()
			defer mu.Unlock()
			answers[answer]++
		})
	}
	wg.Wait()
	var counts []string
	for _, answer := range slices.SortedFunc(maps.Keys(answers), func(a, b string) int { return answers[a] - answers[b] }) {
		counts = append(counts, fmt.Sprintf("%d x %s", answers[answer], answer))
	}
	return strings.Join(counts, ", ")
}
