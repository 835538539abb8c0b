package preflight

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// askTimeout bounds each question.
const askTimeout = 10 * time.Second

// Asker asks over the network.
type Asker struct {
	// Lookup resolves names; nil: the host's resolver.
	Lookup func(ctx context.Context, host string) ([]string, error)
	// Now is the host's clock; nil: time.Now.
	Now func() time.Time
}

// ask asks everything that is wanted.
func (a Asker) ask(ctx context.Context, t Targets) Network {
	var n Network
	if t.APIServer != "" {
		a.askAPIServer(ctx, t, &n)
	}
	if len(t.ImageSources) > 0 {
		n.ImageSource = a.askSources(ctx, t.ImageSources)
	}
	return n
}

// askSources asks one after the other until one answers.
func (a Asker) askSources(ctx context.Context, sources []Source) *Answer {
	var asked []string
	var errs []error
	for _, source := range sources {
		var roots *x509.CertPool
		if source.CABundle != "" {
			roots = x509.NewCertPool()
			roots.AppendCertsFromPEM([]byte(source.CABundle)) // without one nothing is verified, and nothing answers
		}
		_, err := a.get(ctx, source.Address, roots)
		if err == nil {
			return &Answer{Asked: source.Address}
		}
		asked, errs = append(asked, source.Address), append(errs, err)
	}
	return &Answer{Asked: strings.Join(asked, ", "), Err: errors.Join(errs...)}
}

func (a Asker) askAPIServer(ctx context.Context, t Targets, n *Network) {
	u, err := url.Parse(t.APIServer)
	if err != nil {
		n.APIServer = &Answer{Asked: t.APIServer, Err: err}
		return
	}
	host := u.Hostname()
	n.Resolution = &Answer{Asked: host, Err: a.resolve(ctx, host)}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(t.CABundle)) {
		n.APIServer = &Answer{Asked: t.APIServer, Err: errors.New("the assignment has no certificate to verify it with")}
		return
	}
	// Whoever it lets in: an answer that says no is one.
	answer, err := a.get(ctx, u.JoinPath("livez").String(), roots)
	n.APIServer = &Answer{Asked: t.APIServer, Err: err}
	if err != nil {
		return
	}
	if theirs, err := http.ParseTime(answer.date); err == nil {
		skew := answer.at.Sub(theirs)
		n.Skew = &skew
	}
}

func (a Asker) resolve(ctx context.Context, host string) error {
	if net.ParseIP(host) != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	lookup := a.Lookup
	if lookup == nil {
		lookup = net.DefaultResolver.LookupHost
	}
	_, err := lookup(ctx, host)
	return err
}

// answered is what of an answer is looked at.
type answered struct {
	date string
	at   time.Time
}

// get asks an address; any answer will do. Without roots those of the host are trusted.
func (a Asker) get(ctx context.Context, address string, roots *x509.CertPool) (answered, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	transport := &http.Transport{
		Proxy:             http.ProxyFromEnvironment,
		TLSClientConfig:   &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots},
		DisableKeepAlives: true,
	}
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return answered{}, fmt.Errorf("ask %s: %w", address, err)
	}
	response, err := client.Do(request)
	if err != nil {
		return answered{}, err
	}
	now := a.Now
	if now == nil {
		now = time.Now
	}
	return answered{date: response.Header.Get("Date"), at: now()}, response.Body.Close()
}
