package manager

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"nstance.dev/operator/config"
	"nstance.dev/operator/demand/penaltyfile"
	"nstance.dev/operator/demandmode"
	"nstance.dev/operator/informers"
	"nstance.dev/operator/shards"
)

// caEntry is the key of the CA bundle in its ConfigMap.
const caEntry = "ca.crt"

// reloadInterval is how often the configuration file is read again.
const reloadInterval = 30 * time.Second

// liveConfig holds the configuration that is in force. Its methods are safe for concurrent use.
type liveConfig struct {
	listed map[string]string // the shards' ConfigMap at the start; for the leader alone

	mu      sync.RWMutex
	present config.Config
}

func (f *liveConfig) get() config.Config {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.present
}

func (f *liveConfig) set(c config.Config) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.present = c
}

// load reads the configuration at the start, and returns the ConfigMap's part of it, nil
// if there is none. Reads must not come from a cache.
func load(ctx context.Context, s config.Settings, live client.Reader) (config.Config, map[string]string, error) {
	file, err := os.ReadFile(s.Config)
	if err != nil {
		return config.Config{}, nil, fmt.Errorf("read configuration: %w", err)
	}
	listed, err := configMap(ctx, live, s.Namespace, s.ShardsConfigMap)
	if err != nil {
		return config.Config{}, nil, err
	}
	c, err := config.Parse(config.Sources{File: file, Shards: listed})
	return c, listed, err
}

// configMap returns the data of a ConfigMap, nil if there is none.
func configMap(ctx context.Context, live client.Reader, namespace, name string) (map[string]string, error) {
	var o corev1.ConfigMap
	err := live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &o)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get ConfigMap %s: %w", name, err)
	}
	return dataOf(&o), nil
}

// dataOf is not nil even if there is nothing in it.
func dataOf(o *corev1.ConfigMap) map[string]string {
	if o.Data == nil {
		return map[string]string{}
	}
	return o.Data
}

// caBundle returns the CA bundle that verifies the certificates of the servers.
func caBundle(ctx context.Context, live client.Reader, namespace, name string) ([]byte, error) {
	data, err := configMap(ctx, live, namespace, name)
	if err != nil {
		return nil, err
	}
	if data[caEntry] == "" {
		return nil, fmt.Errorf("ConfigMap %s with entry %s is missing; put the cluster's CA bundle into it, as nstance-admin shows it", name, caEntry)
	}
	return []byte(data[caEntry]), nil
}

// watchConfigMaps calls f whenever a ConfigMap of a cache has changed, with its name and
// data; nil data: it is gone. f is called by one goroutine and may wait until ctx ends.
func watchConfigMaps(ctx context.Context, from informers.Source, f func(name string, data map[string]string)) error {
	_, err := informers.Hear(ctx, from, &corev1.ConfigMap{}, func(m *corev1.ConfigMap, gone bool) {
		if gone {
			f(m.Name, nil)
			return
		}
		f(m.Name, dataOf(m))
	})
	return err
}

// operatorTargets are the shards with the addresses that the operator works with.
func operatorTargets(c config.Config) []shards.Target {
	return targets(c, func(s config.Shard) []string { return s.Operator })
}

// registrationTargets are the shards with the addresses that it registers at.
func registrationTargets(c config.Config) []shards.Target {
	return targets(c, func(s config.Shard) []string { return s.Registration })
}

func targets(c config.Config, addresses func(config.Shard) []string) []shards.Target {
	out := make([]shards.Target, len(c.Shards))
	for i, s := range c.Shards {
		out[i] = shards.Target{Shard: s.Name, Addresses: addresses(s)}
	}
	return out
}

// demandFiles are the files of demand mode that are followed.
type demandFiles struct {
	penalties *penaltyfile.File   // of PriorityClasses
	joining   *demandmode.Joining //  nil: demand mode is off
}

func openDemandFiles(s config.Settings, c config.Config, log *slog.Logger) (files demandFiles, err error) {
	if files.penalties, err = penaltyfile.Open(s.Demand.Pods.PenaltyFile, log); err != nil {
		return demandFiles{}, err
	}
	files.joining, err = demandmode.NewJoining(s, c, ctrlmetrics.Registry, log)
	return files, err
}
