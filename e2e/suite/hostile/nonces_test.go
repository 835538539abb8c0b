package hostile

import (
	"slices"
	"testing"
	"time"

	"nstance.dev/e2e/env/box"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// refused is the one answer to a nonce that lets nobody in, whatever is wrong with it.
const refused = "PermissionDenied REGISTRATION_REFUSED: registration refused"

// door is one of the two calls that take nonces. For agents a nonce is known to the server,
// so one that it did not make is refused for that alone; for operators it is not, and all
// depends on what stands in the token.
type door string

const (
	asAgent    door = "agent"
	asOperator door = "operator"
)

// register shows a token with a proper key.
func (w *world) register(t *testing.T, as door, token string) string {
	t.Helper()
	return w.ask(t, as, box.Registration(t, token, box.NewKey(t)))
}

// ask makes a request until it is answered: there is a limit on how many are answered in a
// second, which is no part of these attempts.
func (w *world) ask(t *testing.T, as door, req *nstancev1.RegisterClientRequest) string {
	t.Helper()
	client := w.newcomer(t)
	for {
		var err error
		if as == asAgent {
			_, err = client.RegisterAgent(call(t), req)
		} else {
			_, err = client.RegisterOperator(call(t), req)
		}
		if reasonOf(err) != "RATE_LIMITED" {
			return said(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// operatorToken is a new nonce for an operator, as the command line makes them.
func (w *world) operatorToken(t *testing.T) *token {
	t.Helper()
	out := w.tokenOf(t, w.victim)
	for _, name := range []string{"shard", "group", "on_demand", "config_hash"} {
		delete(out.claims, name)
	}
	out.claims["kind"], out.claims["sub"], out.claims["jti"] = "operator", out.claims["cluster_id"], randomHex(t)
	return out
}

// tokenFor is a proper token for a door.
func (w *world) tokenFor(t *testing.T, as door) *token {
	t.Helper()
	if as == asAgent {
		return w.tokenOf(t, w.victim)
	}
	return w.operatorToken(t)
}

// forgeries are all tokens that must not let anybody in, at either door.
var forgeries = slices.Concat(signers, algorithms, headers, claimForms, times, spellings)

func nonces() (rows []attempt) {
	for _, f := range forgeries {
		for _, as := range []door{asAgent, asOperator} {
			rows = append(rows, attempt{"F42", string(as) + ": " + f.name, refused, func(t *testing.T, w *world) string {
				return w.register(t, as, f.forge(t, w, w.tokenFor(t, as)))
			}})
		}
	}
	for _, c := range agentClaims {
		rows = append(rows, attempt{"F42", "agent: " + c.name, refused, func(t *testing.T, w *world) string {
			return w.register(t, asAgent, c.forge(t, w, w.tokenOf(t, w.victim)))
		}})
	}
	for _, c := range operatorClaims {
		rows = append(rows, attempt{"F42", "operator: " + c.name, refused, func(t *testing.T, w *world) string {
			return w.register(t, asOperator, c.forge(t, w, w.operatorToken(t)))
		}})
	}
	for _, k := range badKeys {
		for _, as := range []door{asAgent, asOperator} {
			rows = append(rows, k.row(as))
		}
	}
	return slices.Concat(rows, badProofs, replays, hostnames)
}
