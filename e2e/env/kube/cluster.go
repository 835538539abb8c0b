package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
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
	authority  *authority   // who issues certificates to users; nil if they come otherwise
	server     *rest.Config // where the API server is and how to know it, for nobody in particular
	apiPort    int          // of an API server that runs here
	etcdURL    string
	webhookURL string // of Cluster API
	node       *node  // that of a cluster of kind
	auditLog   string // path of the audit log; empty: there is none to read
	admin      *rest.Config
	trusting   *http.Client // believes the components' certificates, and is nobody
	audit      audit

	mu    sync.Mutex
	parts map[Component]*part
	ends  []func() // what closes it besides, the last one first
}

// part is a component of a cluster.
type part struct {
	component Component
	launch    func() (runner, error)
	args, env []string                    // of its program, where that runs here
	tail      func(lines int) string      // the end of its output
	healthy   func(context.Context) error // whether it does its work
	runs      runner                      // nil before its first start
}

// runner is a component that has been started: a process of this box, or a Pod of a Node.
type runner interface {
	// Ended reports whether it has ended.
	Ended() bool

	// Stop asks it to end, and returns when it has, or an error when patience is over.
	Stop(patience time.Duration) error

	// Kill ends it as a crash does, and returns when it has ended.
	Kill()
}

// New starts a cluster that keeps its data in dir and the output of its components in
// logs, both of which exist and are the cluster's own. It returns when every component
// is ready. The caller closes the cluster; New itself ends what it has started if it
// returns an error.
func New(ctx context.Context, dir, logs string, config Config) (*Cluster, error) {
	c := &Cluster{dir: dir, logs: logs, parts: map[Component]*part{}}
	start := map[Place]func(context.Context, Config) error{Here: c.startHere, Kind: c.startKind, Given: c.take}[Where()]
	if start == nil {
		return nil, fmt.Errorf("%s: there is no place %q", envPlace, Where())
	}
	if err := start(ctx, config); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// startHere starts a cluster of processes.
func (c *Cluster) startHere(ctx context.Context, config Config) error {
	if err := c.prepare(config); err != nil {
		return err
	}
	return c.startAll(ctx, config)
}

// spendMemory has Go's programs collect garbage less often: they are small here, and the box has
// more memory to spare than time. One that isn't small, as the API server beside 100,000 Pods, takes
// no more than the limit before it collects as often as it needs.
var spendMemory = []string{"GOGC=400", "GOMEMLIMIT=6GiB"}

// prepare writes down all that components find at their start.
func (c *Cluster) prepare(config Config) error {
	var err error
	if c.authority, err = newAuthority(); err != nil {
		return err
	}
	if c.apiPort, err = FreePort(); err != nil {
		return err
	}
	c.auditLog = filepath.Join(c.logs, "audit.log")
	if err := c.meet("https://"+address(c.apiPort), c.authority.pem); err != nil {
		return err
	}
	if c.admin, err = c.User("admin", "system:masters"); err != nil {
		return err
	}
	if err := os.WriteFile(c.authorityFile(), c.authority.pem, 0o600); err != nil {
		return err
	}
	serving, err := c.authority.server(config.Names...)
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
		path, err := tool(string(component))
		if err != nil {
			return err
		}
		p.args = append(p.args, config.Flags[component]...)
		p.env = slices.Concat(p.env, spendMemory, config.Env[component])
		log := filepath.Join(c.logs, string(component)+".log")
		p.launch = func() (runner, error) { return Run(path, p.args, p.env, log) }
		p.tail = func(lines int) string { return tail(log, lines) }
		c.parts[component] = p
	}
	return nil
}

// meet has the cluster's clients know its API server by an authority, in PEM.
func (c *Cluster) meet(host string, authority []byte) error {
	tls, err := transport.TLSConfigFor(&transport.Config{TLS: transport.TLSConfig{CAData: authority}})
	if err != nil {
		return err
	}
	c.trusting = &http.Client{Transport: &http.Transport{TLSClientConfig: tls, DisableKeepAlives: true}}
	c.server = &rest.Config{Host: host, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: authority}}
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
	case p.runs != nil && !p.runs.Ended():
		return nil
	}
	runs, err := p.launch()
	if err != nil {
		return fmt.Errorf("start %s: %w", component, err)
	}
	p.runs = runs
	return nil
}

// Await waits until a component that has been started does its work. The error has the
// end of its output.
func (c *Cluster) Await(ctx context.Context, component Component) error {
	p, runs, err := c.running(component)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	err = await(ctx, func(ctx context.Context) error {
		if runs.Ended() {
			return permanent{errEnded}
		}
		return p.healthy(ctx)
	})
	if err != nil {
		return fmt.Errorf("%s: %w; its output ends with:\n%s", component, err, p.tail(15))
	}
	return nil
}

// Stop asks a component to end, and waits for its end.
func (c *Cluster) Stop(component Component) error {
	_, runs, err := c.running(component)
	if err != nil {
		return err
	}
	return runs.Stop(Patience)
}

// Kill ends a component as a crash does.
func (c *Cluster) Kill(component Component) error {
	_, runs, err := c.running(component)
	if err != nil {
		return err
	}
	runs.Kill()
	return nil
}

// running returns a component that has been started at least once.
func (c *Cluster) running(component Component) (*part, runner, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.parts[component]
	if p == nil || p.runs == nil {
		return nil, nil, fmt.Errorf("%w: %s", ErrUnknownComponent, component)
	}
	return p, p.runs, nil
}

// Close ends all components, without a goodbye: nobody needs what they know. In a cluster that
// was given it undoes what New did.
func (c *Cluster) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.parts {
		if process, here := p.runs.(*Process); here {
			process.Kill()
		}
	}
	for _, end := range slices.Backward(c.ends) {
		end()
	}
	if c.trusting != nil {
		c.trusting.CloseIdleConnections()
	}
}

// Log returns the last lines of a component's output.
func (c *Cluster) Log(component Component, lines int) string {
	if p := c.parts[component]; p != nil {
		return p.tail(lines)
	}
	return "nothing is known of it"
}
