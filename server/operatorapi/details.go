package operatorapi

import (
	"math"

	"google.golang.org/protobuf/proto"

	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/status"
)

// addDetails adds what answers about one instance alone have.
func addDetails(st *nstancev1.InstanceStatus, d *status.Details) {
	for _, step := range d.Life {
		st.Life = append(st.Life, &nstancev1.LifeStep{State: step.State, At: stamp(step.At)})
	}
	for _, f := range d.Files {
		st.Files = append(st.Files, &nstancev1.InstanceFile{
			Name: f.Name, Kind: f.Kind, Current: f.Current, ExpiresAt: stamp(f.Ends), ModifiedAt: stamp(f.Modified), Error: f.Error,
		})
	}
}

// addUsage adds what the last report says of the load. It comes from the machine, so it is
// believed within bounds alone.
func addUsage(st *nstancev1.InstanceStatus, report []byte) {
	var m nstancev1.Metrics
	if len(report) == 0 || proto.Unmarshal(report, &m) != nil {
		return
	}
	st.CpuUsage, st.MemoryUsage = percent(m.CpuUsage), percent(m.MemoryUsage)
}

// percent is what was measured, nil if that is no percentage.
func percent(p *float64) *float64 {
	if p == nil || math.IsNaN(*p) || *p < 0 || *p > 100 {
		return nil
	}
	return p
}
