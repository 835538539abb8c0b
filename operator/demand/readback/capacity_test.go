package readback

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
)

func said(shard string, c demandpb.Confidence, count, cost int64, missing ...int64) Said {
	u := &demandpb.AvailableCapacityUpdate{
		Fingerprint: "f", Confidence: c, AvailableCount: count, CostMicroUsdPerHour: cost,
		Requirements: []*demandpb.NodeSelectorRequirement{
			{Key: "arch", Operator: demandpb.Operator_OPERATOR_IN, Values: []string{"amd64"}}, {Key: "rack", Operator: demandpb.Operator_OPERATOR_SAME},
		},
		Tolerations: []*demandpb.Toleration{{Key: "gpu", Exists: true, Effect: demandpb.TaintEffect_TAINT_EFFECT_NO_SCHEDULE}},
	}
	for _, cpu := range missing {
		u.Shortfall = []*demandpb.ResourceAmount{{Name: "cpu", Amount: cpu}}
		u.ShortfallReason, u.ShortfallSinceUnixMs = "NoQuota of "+shard, begin.UnixMilli()+cpu
	}
	return Said{Shard: shard, Update: u, At: begin}
}

func TestAvailableIsTheSumOfTheShards(t *testing.T) {
	none, medium, high := demandpb.Confidence_CONFIDENCE_NONE, demandpb.Confidence_CONFIDENCE_MEDIUM, demandpb.Confidence_CONFIDENCE_HIGH
	for name, tt := range map[string]struct {
		said       []Said
		confidence demandv1.Confidence
		count      int64
		cost       string
		missing    string // processors; empty: no shortfall
		reason     string
	}{
		"one":                         {[]Said{said("a", medium, 3, 96_000)}, demandv1.ConfidenceMedium, 3, "0.096", "", ""},
		"the best, all, the cheapest": {[]Said{said("a", high, 1, 2_500_000), said("b", medium, 4, 1_000_000)}, demandv1.ConfidenceHigh, 5, "1", "", ""},
		"nothing has no price":        {[]Said{said("a", none, 0, 0), said("b", medium, 4, 70_001)}, demandv1.ConfidenceMedium, 4, "0.070001", "", ""},
		"none at all":                 {[]Said{said("a", none, 0, 0, 4000)}, demandv1.ConfidenceNone, 0, "", "4", "NoQuota of a"},
		"one can":                     {[]Said{said("a", none, 0, 0, 4000), said("b", medium, 1, 10)}, demandv1.ConfidenceMedium, 1, "0.00001", "", ""},
		"the other can":               {[]Said{said("a", medium, 1, 10), said("b", none, 0, 0, 4000)}, demandv1.ConfidenceMedium, 1, "0.00001", "", ""},
		"none can": {
			[]Said{said("a", none, 0, 0, 4000), said("b", none, 0, 0, 1500)}, demandv1.ConfidenceNone, 0, "", "5500m", "NoQuota of b",
		},
	} {
		t.Run(name, func(t *testing.T) {
			slices.Reverse(tt.said)
			o := Available(nil, "f", tt.said).Create
			if o == nil || o.Name != CapacityName("f") || o.Spec.ProfileFingerprint != "f" {
				t.Fatalf("%+v", o)
			}
			if o.Spec.Confidence != tt.confidence || o.Spec.AvailableCount != tt.count || o.Spec.CostPerHour != tt.cost {
				t.Errorf("%+v", o.Spec.CapacityHint)
			}
			missing, reason := "", ""
			if s := o.Status.Shortfall; s != nil {
				missing, reason = s.Deficit.Cpu().String(), s.Reason
			}
			if missing != tt.missing || reason != tt.reason {
				t.Errorf("missing %q, %q", missing, reason)
			}
			if len(o.Status.Shards) != len(tt.said) || o.Status.Shards[0].Shard != "a" {
				t.Errorf("shards %+v", o.Status.Shards)
			}
			if r := o.Spec.Requirements; r[0].Operator != "In" || r[1].Operator != "Same" || o.Spec.Tolerations[0].Operator != "Exists" {
				t.Errorf("profile %+v, %+v", r, o.Spec.Tolerations)
			}
		})
	}
}

// What was said again is not written again; what a shard takes back goes, and the object with
// the last of it.
func TestAvailableIsWrittenWhenItChanges(t *testing.T) {
	low, medium := demandpb.Confidence_CONFIDENCE_LOW, demandpb.Confidence_CONFIDENCE_MEDIUM
	all := []Said{said("a", medium, 3, 96_000, 1), said("b", low, 1, 50_000, 2)}
	o := kept(t, Available(nil, "f", all).Create)
	for i := range all {
		all[i].At = begin.Add(time.Hour)
	}
	before := o.DeepCopy()
	if c := Available(o, "f", all); c.Spec != nil || c.Status != nil || c.Create != nil || c.Delete {
		t.Errorf("it is written again: %+v", c)
	}
	all[0].Update.Withdrawn = true
	c := Available(o, "f", all)
	if c.Spec == nil || c.Spec.Confidence != demandv1.ConfidenceLow || c.Status == nil || len(c.Status.Shards) != 1 || c.Reason == "" {
		t.Errorf("%+v", c)
	}
	if !equality.Semantic.DeepEqual(before, o) {
		t.Error("what was observed was changed")
	}
	all[1].Update.Withdrawn = true
	if c := Available(o, "f", all); !c.Delete {
		t.Errorf("%+v", c)
	}
	if c := Available(nil, "f", all); c.Delete || c.Create != nil {
		t.Errorf("%+v", c)
	}
}
