package download

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"
)

// Transport makes connections for downloads: TLS 1.3 with the given roots, those of the
// system if they are nil, and every step but the body with a deadline. Proxies come from the
// process's environment. Content arrives as the server has it, never decompressed.
func Transport(roots *x509.CertPool) *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSClientConfig:       &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots},
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: 30 * time.Second,
		IdleConnTimeout:       time.Minute,
		MaxIdleConnsPerHost:   2,
		DisableCompression:    true,
		ForceAttemptHTTP2:     true,
	}
}

// maxRedirects is how often a server may send a request on.
const maxRedirects = 5

var errRedirect = errors.New("the server redirects")

// Client follows a few redirects, and none from https to http.
func Client(transport http.RoundTripper) *http.Client {
	return &http.Client{Transport: transport, CheckRedirect: func(next *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return fmt.Errorf("%w more than %d times", errRedirect, maxRedirects)
		}
		if next.URL.Scheme != "https" && via[len(via)-1].URL.Scheme == "https" {
			return fmt.Errorf("%w from https to a connection without TLS", errRedirect)
		}
		return nil
	}}
}

// Plain is an address without what may be secret in it: user and query.
func Plain(address *url.URL) string {
	return (&url.URL{Scheme: address.Scheme, Host: address.Host, Path: address.Path}).String()
}

// Cause is what went wrong with a request, without the address, which may be the secret one
// of a redirect.
func Cause(err error) error {
	var failed *url.Error
	for errors.As(err, &failed) {
		err = failed.Err
	}
	return err
}
