package kubeconfig

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// ErrNoKubeconfig is the error of requests before [Transport.Use].
var ErrNoKubeconfig = errors.New("there is no kubeconfig for the workload cluster")

// Transport carries requests to an API server with the credentials and the authorities of
// the present kubeconfig. The zero value has none. It is safe for concurrent use.
type Transport struct {
	mu      sync.RWMutex
	present http.RoundTripper
	ca      []byte
}

// Use takes in a kubeconfig. Requests that are under way end as they began. What cannot be
// used is an error, and nothing changes.
func (t *Transport) Use(kubeconfig []byte) error {
	c, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return errors.New("the kubeconfig of the workload cluster cannot be read") // the cause might show it
	}
	next, err := rest.TransportFor(c)
	if err != nil {
		return fmt.Errorf("the kubeconfig of the workload cluster: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.present, t.ca = next, c.CAData
	return nil
}

// CA returns the authorities of the present kubeconfig, PEM; nil: there is none, or it names a file.
func (t *Transport) CA() []byte {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.ca
}

// RoundTrip implements [http.RoundTripper].
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	t.mu.RLock()
	present := t.present
	t.mu.RUnlock()
	if present == nil {
		return nil, ErrNoKubeconfig
	}
	return present.RoundTrip(r)
}

// ClientConfig returns the settings of clients of the API server at an endpoint,
// https://host:port. base has the limits on calls and what else is the same for all.
func ClientConfig(endpoint string, t *Transport, base *rest.Config) *rest.Config {
	return &rest.Config{
		Host: endpoint, Transport: t, QPS: base.QPS, Burst: base.Burst, UserAgent: base.UserAgent,
		ContentConfig: base.ContentConfig, Timeout: base.Timeout,
	}
}

// patience is how long one try of [Reachable] takes at most.
const patience = 10 * time.Second

// Reachable says why the API server of a config does not answer, nil if it does.
func Reachable(c *rest.Config) error {
	short := rest.CopyConfig(c)
	short.Timeout = patience
	client, err := rest.HTTPClientFor(short)
	if err != nil {
		return err
	}
	r, err := client.Get(c.Host + "/version")
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return fmt.Errorf("it answers %s", r.Status)
	}
	return nil
}
