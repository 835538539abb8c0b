package gcpfake

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"nstance.dev/server/driver/drivertest/wire"
)

// tokenLife is how long a token of a metadata server is good.
const tokenLife = time.Hour

// admit lets a call in that carries a token which this project gave out.
func (c *Cloud) admit(r *http.Request) error {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return unauthenticated("required", "Request is missing required authentication credential. "+
			"Expected OAuth 2 access token, login cookie or other valid authentication credential.")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	if end, known := c.tokens[token]; !known || !end.After(c.now) {
		return unauthenticated("authError", "Request had invalid authentication credentials. "+
			"Expected OAuth 2 access token, login cookie or other valid authentication credential.")
	}
	return nil
}

// Token gives out a token for the project's service account, which is good for an
// hour, as a metadata server does.
func (c *Cloud) Token() (token string, life time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	token = fmt.Sprintf("ya29.fake-%d", c.id())
	c.tokens[token] = c.now.Add(tokenLife)
	c.after(tokenLife, func() { delete(c.tokens, token) })
	return token, tokenLife
}

// RevokeTokens makes all tokens that were given out bad.
func (c *Cloud) RevokeTokens() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.tokens)
}

// Client returns a client that calls this project without a socket and with a new
// token for every call. The address that it is given does not matter.
func (c *Cloud) Client() *http.Client {
	return &http.Client{Transport: signed{c, wire.RoundTripper(c)}}
}

// Open returns a client like that of [Cloud.Client] that adds no token.
func (c *Cloud) Open() *http.Client { return &http.Client{Transport: wire.RoundTripper(c)} }

// signed adds a token to a call.
type signed struct {
	cloud *Cloud
	next  http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (s signed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	token, _ := s.cloud.Token()
	r.Header.Set("Authorization", "Bearer "+token)
	return s.next.RoundTrip(r)
}

// Endpoint is an address for clients that need one though [Cloud.Client] goes nowhere.
const Endpoint = "http://compute.fake.invalid"
