package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

// Patience is how long a component may take to answer or to end, on a box that is
// busy with other things.
const Patience = 4 * time.Minute

// Cluster is a running control plane. Its methods are safe for concurrent use.
type Cluster struct {
	dir, logs  string
	authority  *authority
	apiPort    int
	etcdURL    string
	webhookURL string // of Cluster API
	admin      *rest.Config
	trusting   *http.Client // believes the components' certificates, and is nobody
	audit      audit

	mu    sync.Mutex
	parts map[Component]*part
}

// part is a component of a cluster.
type part struct {
	component Component
	path      string
	args, env []string
	log       string
	healthy   func(context.Context) error // whether it does its work
	process   *Process                    // nil before its first start
}

// New starts a cluster that keeps its data in dir and the output of its components in
// logs, both of which exist and are the cluster's own. It returns when every component
// is ready. The caller closes the cluster; New itself ends what it has started if it
// returns an error.
func New(ctx context.Context, dir, logs string, config Config) (*Cluster, error) {
	c := &Cluster{dir: dir, logs: logs, parts: map[Component]*part{}}
	if err := c.prepare(config); err != nil {
		return nil, err
	}
	if err := c.startAll(ctx, config); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// prepare writes down all that components find at their start.
func (c *Cluster) prepare(config Config) error {
	var err error
	if c.authority, err = newAuthority(); err != nil {
		return err
	}
	if c.apiPort, err = FreePort(); err != nil {
		return err
	}
	if c.admin, err = c.User("admin", "system:masters"); err != nil {
		return err
	}
	tls, err := transport.TLSConfigFor(&transport.Config{TLS: transport.TLSConfig{CAData: c.authority.pem}})
	if err != nil {
		return err
	}
	c.trusting = &http.Client{Transport: &http.Transport{TLSClientConfig: tls, DisableKeepAlives: true}}
	if err := os.WriteFile(c.authorityFile(), c.authority.pem, 0o600); err != nil {
		return err
	}
	serving, err := c.authority.server()
	if err != nil {
		return err
	}
	if err := serving.write(c.servingDir()); err != nil {
		return err
	}
	makers := map[Component]func(Config) (*part, error){
		Etcd: c.etcd, APIServer: c.apiServer, ControllerManager: c.controllerManager,
		Scheduler: c.scheduler, ClusterAPI: c.clusterAPI,
	}
	for _, component := range config.components() {
		p, err := makers[component](config)
		if err != nil {
			return fmt.Errorf("%s: %w", component, err)
		}
		p.component = component
		if p.path, err = tool(string(component)); err != nil {
			return err
		}
		p.args = append(p.args, config.Flags[component]...)
		p.env = append(p.env, config.Env[component]...)
		p.log = filepath.Join(c.logs, string(component)+".log")
		c.parts[component] = p
	}
	return nil
}

// startAll starts the components. The API server is patient with etcd, the others
// with nobody.
func (c *Cluster) startAll(ctx context.Context, config Config) error {
	if err := c.launch(Etcd); err != nil {
		return err
	}
	if err := c.Start(ctx, APIServer); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	if config.ClusterAPI {
		g.Go(func() error {
			if err := c.installClusterAPI(ctx); err != nil {
				return fmt.Errorf("install Cluster API: %w", err)
			}
			if err := await(ctx, c.clusterAPIEntitled); err != nil {
				return fmt.Errorf("rights of Cluster API: %w", err)
			}
			return c.Start(ctx, ClusterAPI)
		})
	}
	for _, component := range []Component{ControllerManager, Scheduler} {
		if c.parts[component] != nil {
			g.Go(func() error { return c.Start(ctx, component) })
		}
	}
	return g.Wait()
}

// ErrUnknownComponent means that the cluster was made without a component.
var ErrUnknownComponent = errors.New("the cluster has no such component")

// Start starts a component that has been stopped or killed, where it was and with what it
// has kept, and waits until it does its work. A component that runs is only waited for.
func (c *Cluster) Start(ctx context.Context, component Component) error {
	if err := c.launch(component); err != nil {
		return err
	}
	return c.Await(ctx, component)
}

func (c *Cluster) launch(component Component) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.parts[component]
	switch {
	case p == nil:
		return fmt.Errorf("%w: %s", ErrUnknownComponent, component)
	case p.process != nil && !p.process.Ended():
		return nil
	}
	process, err := Run(p.path, p.args, p.env, p.log)
	if err != nil {
		return fmt.Errorf("start %s: %w", component, err)
	}
	p.process = process
	return nil
}

// Await waits until a component that has been started does its work. The error has the
// end of its output.
func (c *Cluster) Await(ctx context.Context, component Component) error {
	p, process, err := c.running(component)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	err = await(ctx, func(ctx context.Context) error {
		if process.Ended() {
			return permanent{errEnded}
		}
		return p.healthy(ctx)
	})
	if err != nil {
		return fmt.Errorf("%s: %w; its output ends with:\n%s", component, err, tail(p.log, 15))
	}
	return nil
}

// Stop asks a component to end, and waits for its end.
func (c *Cluster) Stop(component Component) error {
	_, process, err := c.running(component)
	if err != nil {
		return err
	}
	return process.Stop(Patience)
}

// Kill ends a component as a crash does.
func (c *Cluster) Kill(component Component) error {
	_, process, err := c.running(component)
	if err != nil {
		return err
	}
	process.Kill()
	return nil
}

// running returns a component that has been started at least once.
func (c *Cluster) running(component Component) (*part, *Process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.parts[component]
	if p == nil || p.process == nil {
		return nil, nil, fmt.Errorf("%w: %s", ErrUnknownComponent, component)
	}
	return p, p.process, nil
}

// Close ends all components, without a goodbye: nobody needs what they know.
func (c *Cluster) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.parts {
		if p.process != nil {
			p.process.Kill()
		}
	}
	c.trusting.CloseIdleConnections()
}

// Log returns the last lines of a component's output.
func (c *Cluster) Log(component Component, lines int) string {
	return tail(filepath.Join(c.logs, string(component)+".log"), lines)
}
