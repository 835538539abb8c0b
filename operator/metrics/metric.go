package metrics

import (
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Prefix begins the name of every metric of the operator but those of demand mode and of host
// machines, which are of other programs too: nstance_demand_upc_reconciles_total.
const Prefix = "nstance_operator_"

const (
	sharedPrefix = "nstance_"
	demandNames  = "demand_"
	hostNames    = "machines_"
)

// other is the value of a label for what is none of its values, so that a server cannot
// make labels.
const other = "other"

// scrapeTimeout bounds one look at the objects.
const scrapeTimeout = 5 * time.Second

// Kind is what Prometheus calls the type of a metric.
type Kind string

// The kinds.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// Label is a label of a metric.
type Label struct {
	Name string
	// Values are all that there are; nil: it has names of shards, groups and pools, or words
	// of gRPC.
	Values []string
}

// Metric describes a metric.
type Metric struct {
	Name   string // without its prefix
	Kind   Kind
	Labels []Label
	Help   string
	// Buckets are the upper bounds of a histogram, in its unit; nil for the other kinds.
	Buckets []float64
}

// FullName is the name that a registry shows.
func (m Metric) FullName() string {
	if strings.HasPrefix(m.Name, demandNames) || strings.HasPrefix(m.Name, hostNames) {
		return sharedPrefix + m.Name
	}
	return Prefix + m.Name
}

// labels are the names of the labels, in their order.
func (m Metric) labels() []string {
	var names []string
	for _, l := range m.Labels {
		names = append(names, l.Name)
	}
	return names
}

// series are all values that its labels can have together; none if one can have any value.
func (m Metric) series() [][]string {
	all := [][]string{nil}
	for _, l := range m.Labels {
		var longer [][]string
		for _, begun := range all {
			for _, value := range l.Values {
				longer = append(longer, append(begun[:len(begun):len(begun)], value))
			}
		}
		all = longer
	}
	return all
}

func (m Metric) desc() *prometheus.Desc {
	return prometheus.NewDesc(m.FullName(), m.Help, m.labels(), nil)
}

// counter returns the metric at zero, so that the first count shows as a growth.
func (m Metric) counter() *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.FullName(), Help: m.Help}, m.labels())
	for _, values := range m.series() {
		v.WithLabelValues(values...)
	}
	return v
}

// gauge returns the metric without a value.
func (m Metric) gauge() *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: m.FullName(), Help: m.Help}, m.labels())
}

func (m Metric) histogram() *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: m.FullName(), Help: m.Help, Buckets: m.Buckets, NativeHistogramBucketFactor: 1.1,
	}, m.labels())
	for _, values := range m.series() {
		v.WithLabelValues(values...)
	}
	return v
}

// known returns a value of a label, or the one for all others.
func known(l Label, value string) string {
	if slices.Contains(l.Values, value) {
		return value
	}
	return other
}

func gauge(m Metric, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(m.desc(), prometheus.GaugeValue, value, labels...)
}
