package api

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"nstance.dev/server/driver"
)

// endpoints are the addresses of one cluster's API as one transport. Calls go to the first
// address; to the next one where no connection can be made, or where the node has lost
// the cluster's quorum, and stay there. A call that may have arrived is not sent again:
// whoever made it decides.
type endpoints struct {
	base http.RoundTripper
	urls []*url.URL // at least one; requests are made for the first
	log  *slog.Logger

	mu      sync.Mutex
	current int
}

// RoundTrip implements [http.RoundTripper].
func (e *endpoints) RoundTrip(r *http.Request) (*http.Response, error) {
	if len(e.urls) == 1 {
		return e.base.RoundTrip(r)
	}
	body, err := bodyOf(r)
	if err != nil {
		return nil, err
	}
	first := e.start()
	for i := range e.urls {
		at := (first + i) % len(e.urls)
		res, failed := e.base.RoundTrip(e.request(r, at, body))
		last := i == len(e.urls)-1
		switch {
		case failed == nil && (!quorumLost(res) || last):
			e.settle(first, at)
			return res, nil
		case failed == nil:
			err = errors.New(res.Status)
			_ = res.Body.Close() // there is nothing in it but the words of the status
		case unsent(failed):
			err = failed
		default:
			e.settle(first, at+1) // the next call tries another one
			return nil, failed
		}
		e.log.Warn("API address unreachable", "url", e.urls[at].Redacted(), "error", err)
	}
	return nil, err
}

// request is a call to one of the addresses.
func (e *endpoints) request(r *http.Request, at int, body []byte) *http.Request {
	to := r.Clone(r.Context())
	path := strings.TrimPrefix(r.URL.Path, e.urls[0].Path)
	escaped := strings.TrimPrefix(r.URL.EscapedPath(), e.urls[0].EscapedPath())
	u := *e.urls[at]
	u.Path, u.RawPath, u.RawQuery = u.Path+path, u.EscapedPath()+escaped, r.URL.RawQuery
	to.URL, to.Host = &u, ""
	if body != nil {
		to.Body = io.NopCloser(bytes.NewReader(body))
	}
	return to
}

// bodyOf reads a request's body, which may be sent more than once; nil: it has none.
func bodyOf(r *http.Request) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, fmt.Errorf("read what is to be sent: %w", err)
	}
	return body, nil
}

func (e *endpoints) start() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.current
}

// settle has the next calls go to an address, unless another call has decided already.
func (e *endpoints) settle(was, now int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now %= len(e.urls)
	if e.current != was || now == was {
		return
	}
	e.current = now
	e.log.Info("switched to another API address", "url", e.urls[now].Redacted())
}

// unsent reports whether a failed call did not leave this program: no connection was made,
// or the other side's certificate was not the right one.
func unsent(err error) bool {
	var dns *net.DNSError
	var op *net.OpError
	return errors.As(err, &dns) || errors.As(err, &op) && op.Op == "dial" || KindOf(err) == driver.Auth
}

// quorumLost reports whether a node refuses all changes because it sees too few others.
func quorumLost(res *http.Response) bool {
	return res.StatusCode == http.StatusInternalServerError && strings.Contains(res.Status, "no quorum")
}
