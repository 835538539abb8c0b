package userdata

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"nstance.dev/server/config/document"
)

const (
	fetchTimeout    = 10 * time.Second
	maxRedirections = 3
)

// Fetcher gets user data. It is safe for concurrent use.
type Fetcher struct {
	client *http.Client
}

// NewFetcher makes a fetcher over a transport; nil: that of net/http, with the
// proxies of the environment.
func NewFetcher(transport http.RoundTripper) *Fetcher {
	return &Fetcher{client: &http.Client{
		Transport: transport,
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			switch {
			case len(via) > maxRedirections:
				return fmt.Errorf("more than %d redirections", maxRedirections)
			case req.URL.Scheme != "https":
				return errors.New("a redirection leaves https")
			}
			return nil
		},
	}}
}

// Fetch gets what stands at an address.
func (f *Fetcher) Fetch(ctx context.Context, address string) ([]byte, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("user data: the address is not an https URL")
	}
	data, err := f.get(ctx, u)
	if err != nil {
		return nil, fmt.Errorf("user data from %s: %w", Place(address), err)
	}
	return data, nil
}

func (f *Fetcher) get(ctx context.Context, u *url.URL) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, errors.New("not a valid request")
	}
	resp, err := f.client.Do(req)
	if e := (*url.Error)(nil); errors.As(err, &e) {
		err = e.Err // the rest is the address, with its query
	}
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", resp.StatusCode)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, document.MaxUserdata+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) > document.MaxUserdata:
		return nil, fmt.Errorf("larger than %d bytes", document.MaxUserdata)
	case len(data) == 0:
		return nil, errors.New("empty")
	}
	return data, nil
}

// Hash names user data without telling it: SHA-256 in hex, as in the record of an instance.
func Hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Place is an address without what may be secret in it: user, query and fragment.
func Place(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "an invalid address"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
