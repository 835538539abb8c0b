package demand

import "fmt"

// Settings are the settings of an [Engine]; zero fields take the defaults.
type Settings struct {
	Workers       int               // that compute at once inside a step; 1
	MaxCreates    int               // in one cycle; 1000; negative: no limit
	MaxShortfalls int               // that a result lists; 100
	HourlySpend   map[string]int64  // by cluster, in millionths of a dollar; absent: no limit
	Domains       map[string]string // the priority domain of a cluster; absent: the cluster by itself
	// NewID names a machine that is to be bought of an offer. It is called once for each, in a fixed
	// order, and never returns the same id twice.
	NewID func(offer string) string
}

// Validate reports what is wrong with the settings.
func (s Settings) Validate() error {
	if s.NewID == nil {
		return fmt.Errorf("NewID must be set")
	}
	if s.Workers < 0 {
		return fmt.Errorf("workers: %d must not be negative", s.Workers)
	}
	return nil
}
