package drain

import (
	"net/http"
	"strings"
)

// AskOnce returns a transport of the workload cluster for [Reconciler]: each eviction is asked for once. An answer with
// Retry-After makes client-go wait and repeat the call by itself, ten times at most, while the
// drain that waits for it would miss its deadline. What the answer says of the time stays in its
// body, see [Result]; the drain decides. It is safe for concurrent use if next is.
func AskOnce(next http.RoundTripper) http.RoundTripper { return askOnce{next} }

type askOnce struct{ next http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (t askOnce) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := t.next.RoundTrip(r)
	if err == nil && r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/eviction") {
		answer.Header.Del("Retry-After")
	}
	return answer, err
}
