package api

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"nstance.dev/providers/proxmox/rules"
	"nstance.dev/server/driver"
	"nstance.dev/server/outbound"
)

// transportOf makes the connection to the API out of the options.
func transportOf(o Options) (http.RoundTripper, error) {
	if o.Transport != nil {
		return o.Transport, nil
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = &tls.Config{
		MinVersion:         tls.VersionTLS12, // the API, or a proxy before it, need not have 1.3
		InsecureSkipVerify: o.InsecureTLS,    //nolint:gosec // an option of that name, off by default
	}
	dialer := &net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
	if len(o.URLs) > 1 {
		dialer.Timeout, dialer.KeepAlive = longestDial, 15*time.Second
	}
	outbound.Bound(dialer)
	t.DialContext = dialer.DialContext
	if len(o.Fingerprints) > 0 {
		if err := pin(t.TLSClientConfig, o.Fingerprints); err != nil {
			return nil, err
		}
		return t, nil
	}
	if o.CAFile == "" {
		return t, nil
	}
	pem, err := os.ReadFile(o.CAFile)
	if err != nil {
		return nil, fmt.Errorf("ca_file: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("ca_file: %s holds no certificate in PEM; it is /etc/pve/pve-root-ca.pem on each node", o.CAFile)
	}
	t.TLSClientConfig.RootCAs = pool
	return t, nil
}

// longestDial is how long a connection may take to be made where there are other
// addresses to try.
const longestDial = 5 * time.Second

// pin has connections take the certificates with these fingerprints, and no others.
func pin(c *tls.Config, fingerprints []string) error {
	pinned := map[[sha256.Size]byte]bool{}
	for _, text := range fingerprints {
		sum, err := rules.ParseFingerprint(text)
		if err != nil {
			return fmt.Errorf("fingerprints: %w", err)
		}
		pinned[sum] = true
	}
	c.InsecureSkipVerify = true // in favour of what follows
	c.VerifyConnection = func(state tls.ConnectionState) error {
		if sum := sha256.Sum256(state.PeerCertificates[0].Raw); !pinned[sum] {
			return Errorf(driver.Auth, "the API's certificate has the fingerprint %s, which is not in fingerprints", strings.ReplaceAll(fmt.Sprintf("% X", sum), " ", ":"))
		}
		return nil
	}
	return nil
}

// refusalTransport turns answers that are none into errors. The client library looks at some
// statuses only, and not at the body, and takes a node's proxy that says 596 for
// one that agrees.
type refusalTransport struct{ http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (s refusalTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := s.RoundTripper.RoundTrip(r)
	if err != nil || res.StatusCode < 300 {
		return res, err
	}
	defer res.Body.Close()
	return nil, refusalOf(res)
}

const maxRefusal = 64 << 10

func refusalOf(res *http.Response) *Refusal {
	r := &Refusal{status: res.StatusCode, reason: strings.TrimSpace(strings.TrimPrefix(res.Status, strconv.Itoa(res.StatusCode)))}
	if seconds, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && seconds > 0 {
		r.after = time.Duration(seconds) * time.Second
	}
	data, err := io.ReadAll(io.LimitReader(res.Body, maxRefusal))
	if err != nil {
		return r // the status says enough
	}
	var body struct {
		Message string            `json:"message"`
		Errors  map[string]string `json:"errors"`
	}
	if json.Unmarshal(data, &body) == nil {
		r.params = body.Errors
		if r.reason == "" || r.reason == http.StatusText(res.StatusCode) {
			// A proxy that speaks HTTP/2 has no place for the words in the status line.
			r.reason = strings.TrimSpace(body.Message)
		}
	}
	if r.reason == "" {
		r.reason = http.StatusText(res.StatusCode)
	}
	return r
}

// contextTransport gives requests another context; the client library has none for uploads.
type contextTransport struct {
	ctx  context.Context //nolint:containedctx // of the one call that this is made for
	base http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (b contextTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	return b.base.RoundTrip(r.WithContext(b.ctx))
}
