package hostile

import "testing"

// refused is the one answer to a nonce that lets nobody in.
const refused = "PermissionDenied REGISTRATION_REFUSED: registration refused"

// changedClaim are tokens that the cluster's own key signed and of which one claim is not
// what the nonce of a machine says.
var changedClaim = []struct {
	name, claim string
	value       any // nil: it is missing
}{
	{"a nonce for another tenant", "tenant", "zeta"},
	{"a nonce for another cluster", "cluster_id", "prod"},
}

func nonces() (rows []attempt) {
	for _, c := range changedClaim {
		rows = append(rows, attempt{"F42", c.name, refused, func(t *testing.T, w *world) string {
			tok := w.tokenOf(t, w.victim)
			tok.claims = with(tok.claims, c.claim, c.value)
			return w.register(t, tok.sign(t))
		}})
	}
	rows = append(rows, attempt{"S9", "a proper nonce is let in once", letIn, func(t *testing.T, w *world) string {
		m := w.member(t, "default", nil)
		return w.connect(t, m.cert, m.id)
	}})
	return rows
}

// register registers a new key with a token.
func (w *world) register(t *testing.T, token string) string {
	t.Helper()
	_, err := w.newcomer(t).RegisterAgent(call(t), request(t, token, newKey(t)))
	return said(err)
}
