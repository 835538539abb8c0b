//go:build console

package console_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"nstance.dev/e2e/env/box"
)

// caller is a program that speaks HTTP for a party: with the cookie of a console, or with a token.
type caller struct {
	t       *testing.T
	name    string
	console bool
	base    string // what paths of the document go below
	client  *http.Client
	headers map[string]string
}

// as are the flags by which commands act for a party.
func (p *party) as() []string {
	addrs, err := p.s.box.Leader()
	p.s.must(err)
	return []string{"--servers", box.Shard + "=" + addrs.Operator, "--identity-dir", p.identity()}
}

// viaConsole logs in at a console of the party, which may change things.
func (p *party) viaConsole() *caller {
	p.s.t.Helper()
	w := &world{t: p.s.t, box: p.s.box}
	w.web = p.s.box.Start("nstance-admin", append([]string{"console", "--allow-actions"}, p.as()...)...)
	login := w.address()
	jar, err := cookiejar.New(nil)
	p.s.must(err)
	c := newCaller(p.s.t, "the console of "+p.mark, w.url+"/api", &http.Transport{})
	c.console, c.client.Jar = true, jar
	c.headers = map[string]string{"Origin": w.url}
	r, err := http.NewRequestWithContext(p.s.t.Context(), http.MethodGet, login, nil)
	p.s.must(err)
	answer, err := c.client.Do(r)
	p.s.must(err)
	_ = answer.Body.Close()
	var session struct{ ActionToken string }
	_, text := c.do(p.s.t.Context(), "get", "/console/session", "")
	p.s.must(json.Unmarshal([]byte(text), &session))
	c.headers["X-Nstance-Token"] = session.ActionToken
	return c
}

var apiAddress = regexp.MustCompile(`api: (https://\S+)`)

// viaAPI calls an API that serves both parties, with a token of the party.
func (p *party) viaAPI() *caller {
	p.s.t.Helper()
	b := p.s.box
	cert, key, roots := p.s.certify()
	tokens := b.Path("tokens-of-" + p.mark)
	token := b.AdminOK("token", "create", "--token-file", tokens, "--tenant", p.named("tenant"), "--access", "write", "--expires", "1h").Out
	args := append([]string{"serve", "--bind", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key, "--token-file", tokens}, p.as()...)
	for _, other := range p.s.parties {
		if other != p {
			args = append(args, "--tenant-identity-dir", other.identity())
		}
	}
	process := b.Start("nstance-admin", args...)
	base := ""
	b.Await("the API prints its address", func() error {
		found := apiAddress.FindStringSubmatch(process.Output())
		if found == nil {
			return fmt.Errorf("it has printed %q", process.Output())
		}
		base = strings.TrimSuffix(found[1], "/")
		return nil
	})
	c := newCaller(p.s.t, "the API for "+p.mark, base, &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}})
	c.headers = map[string]string{"Authorization": "Bearer " + strings.TrimSpace(token)}
	return c
}

// certify makes a certificate for a server on this box.
func (s *markedShard) certify() (certPath, keyPath string, roots *x509.CertPool) {
	s.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	s.must(err)
	now := time.Now()
	f := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), NotBefore: now.Add(-time.Minute), NotAfter: now.Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, f, f, key.Public(), key)
	s.must(err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	s.must(err)
	certPath, keyPath = s.box.Path("api.crt"), s.box.Path("api.key")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	s.must(os.WriteFile(certPath, certificate, 0o600))
	s.must(os.WriteFile(keyPath, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	roots = x509.NewCertPool()
	roots.AppendCertsFromPEM(certificate)
	return certPath, keyPath, roots
}

func newCaller(t *testing.T, name, base string, transport *http.Transport) *caller {
	t.Cleanup(transport.CloseIdleConnections)
	return &caller{t: t, name: name, base: base, client: &http.Client{Transport: transport}}
}

// send sends a request.
func (c *caller) send(ctx context.Context, method, path, body string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, strings.ToUpper(method), c.base+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, value := range c.headers {
		r.Header.Set(name, value)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return c.client.Do(r)
}

// do makes a call and returns its answer.
func (c *caller) do(ctx context.Context, method, path, body string) (status int, text string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	answer, err := c.send(ctx, method, path, body)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return answer.StatusCode, string(data)
}

// operations are those of the API's own document.
func (c *caller) operations() (all []operation) {
	c.t.Helper()
	var document struct {
		Paths map[string]map[string]json.RawMessage
	}
	_, text := c.do(c.t.Context(), "get", "/openapi.json", "")
	if err := json.Unmarshal([]byte(text), &document); err != nil {
		c.t.Fatalf("the document: %v: %.300s", err, text)
	}
	for path, methods := range document.Paths {
		for _, method := range []string{"get", "put", "post", "delete"} {
			if methods[method] != nil {
				all = append(all, operation{method, path})
			}
		}
	}
	slices.SortFunc(all, func(a, b operation) int { return strings.Compare(a.String(), b.String()) })
	return all
}
