package program

import (
	"crypto/tls"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"nstance.dev/operator/config"
)

// RESTConfig returns how a program reaches the API server, without a limit of calls. agent is what it says of
// itself there.
func RESTConfig(s config.Settings, agent string) (*rest.Config, error) {
	c, err := rest.InClusterConfig()
	if s.Kubeconfig != "" {
		c, err = clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	}
	if err != nil {
		return nil, fmt.Errorf("way to the API server: %w", err)
	}
	c.QPS = -1
	c.UserAgent = agent
	if s.JSON {
		c.ContentType = runtime.ContentTypeJSON
	}
	return c, nil
}

// Limited returns the same with a limit of calls of its own.
func Limited(c *rest.Config, qps float32, burst int) *rest.Config {
	c = rest.CopyConfig(c)
	c.QPS, c.Burst, c.RateLimiter = qps, burst, nil
	return c
}

// Metrics returns how a program serves metrics.
func Metrics(s config.Settings) metricsserver.Options {
	o := metricsserver.Options{BindAddress: s.MetricsAddress}
	if s.MetricsSecure {
		o.SecureServing = true
		o.FilterProvider = filters.WithAuthenticationAndAuthorization
		o.TLSOpts = []func(*tls.Config){RequireTLS13}
	}
	return o
}

// RequireTLS13 refuses versions of TLS that nothing in a cluster needs any more.
func RequireTLS13(c *tls.Config) { c.MinVersion = tls.VersionTLS13 }
