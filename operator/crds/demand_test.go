package crds_test

import (
	"maps"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"sigs.k8s.io/yaml"

	"nstance.dev/operator/crds"
	"nstance.dev/operator/crds/crdtest"
)

// An API server takes the definitions of demand mode: the schema is structural and no rule
// can cost more than it allows.
func TestDemandDefinitionsAreValid(t *testing.T) {
	all, err := crds.Demand()
	if err != nil {
		t.Fatal(err)
	}
	short := map[string]string{}
	for _, crd := range all {
		apiextensionsv1.SetDefaults_CustomResourceDefinition(crd)
		apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
		crd.Status.StoredVersions = []string{"v1alpha1"}
		internal := &apiextensions.CustomResourceDefinition{}
		if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd, internal, nil); err != nil {
			t.Fatal(err)
		}
		for _, err := range crdvalidation.ValidateCustomResourceDefinition(t.Context(), internal) {
			t.Errorf("%s: %v", crd.Name, err)
		}
		version := crd.Spec.Versions[0]
		if version.Subresources == nil || version.Subresources.Status == nil {
			t.Errorf("%s has no status", crd.Name)
		}
		short[crd.Spec.Names.ShortNames[0]] = string(crd.Spec.Scope) + " " + crd.Name
	}
	want := map[string]string{
		"creq": "Namespaced capacityrequests.demand.nstance.dev",
		"un":   "Cluster upcomingnodes.demand.nstance.dev",
		"ac":   "Cluster availablecapacities.demand.nstance.dev",
	}
	if !maps.Equal(short, want) {
		t.Errorf("short names %v, want %v", short, want)
	}
}

const request = `
apiVersion: demand.nstance.dev/v1alpha1
kind: CapacityRequest
metadata: {name: web-0-12345678, namespace: default}
`

// What the schema of a request and its rules refuse, they refuse with nobody else there.
func TestCapacityRequestsAreTakenAndRefused(t *testing.T) {
	all, err := crds.Demand()
	if err != nil {
		t.Fatal(err)
	}
	var judge *crdtest.Judge
	for _, crd := range all {
		if crd.Spec.Names.Kind == "CapacityRequest" {
			if judge, err = crdtest.NewJudge(crd); err != nil {
				t.Fatal(err)
			}
		}
	}
	many := func(n int, text string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(text+",", n), ",") + "]"
	}
	for name, tt := range map[string]struct{ spec, refused string }{
		"the least":                     {`{resources: {requests: {cpu: 1}}}`, ""},
		"quantities as text":            {`{resources: {requests: {cpu: 500m, memory: 1Gi, nvidia.com/gpu: "0"}}, interruptionPenalty: 500m, reclamationPenalty: 5}`, ""},
		"nothing is asked for":          {`{resources: {requests: {cpu: 0, memory: "0"}}}`, "at least one request must be more than 0"},
		"no resources":                  {`{resources: {requests: {}}}`, "requests"},
		"a negative request":            {`{resources: {requests: {cpu: 1, memory: "-1"}}}`, "must not be negative"},
		"a negative penalty":            {`{resources: {requests: {cpu: 1}}, interruptionPenalty: "-1"}`, "interruptionPenalty must not be negative"},
		"a negative number as penalty":  {`{resources: {requests: {cpu: 1}}, reclamationPenalty: -1}`, "reclamationPenalty must not be negative"},
		"In without values":             {`{resources: {requests: {cpu: 1}}, requirements: [{key: a, operator: In}]}`, "at least one value"},
		"Exists with values":            {`{resources: {requests: {cpu: 1}}, requirements: [{key: a, operator: Exists, values: [b]}]}`, "take no values"},
		"Gt with an integer":            {`{resources: {requests: {cpu: 1}}, requirements: [{key: a, operator: Gt, values: ["-3"]}]}`, ""},
		"Gt with two":                   {`{resources: {requests: {cpu: 1}}, requirements: [{key: a, operator: Gt, values: ["3", "4"]}]}`, "one decimal integer"},
		"Lt with a word":                {`{resources: {requests: {cpu: 1}}, requirements: [{key: a, operator: Lt, values: [x]}]}`, "one decimal integer"},
		"Same":                          {`{resources: {requests: {cpu: 1}}, requirements: [{key: a, operator: Same}]}`, "Same"},
		"too many values":               {`{resources: {requests: {cpu: 1}}, requirements: [{key: a, operator: In, values: ` + many(65, "b") + `}]}`, "64"},
		"too many requirements":         {`{resources: {requests: {cpu: 1}}, requirements: ` + many(33, "{key: a, operator: Exists}") + `}`, "32"},
		"one alternative":               {`{resources: {requests: {cpu: 1}}, alternatives: [{requirements: [{key: a, operator: Exists}]}]}`, "at least 2"},
		"an alternative that breaks":    {`{resources: {requests: {cpu: 1}}, alternatives: ` + many(2, "{requirements: [{key: a, operator: In}]}") + `}`, "at least one value"},
		"eight alternatives":            {`{resources: {requests: {cpu: 1}}, alternatives: ` + many(8, "{requirements: [{key: a, operator: Exists}]}") + `}`, ""},
		"a skew of 0":                   {`{resources: {requests: {cpu: 1}}, topologySpread: [{topologyKey: a, maxSkew: 0, whenUnsatisfiable: DoNotSchedule}]}`, "maxSkew"},
		"a co-location":                 {`{resources: {requests: {cpu: 1}}, coLocation: {topologyKey: rack, labelSelector: {matchLabels: {app: db}}, namespaces: [default], allOrNothing: true}}`, ""},
		"tolerations":                   {`{resources: {requests: {cpu: 1}}, tolerations: [{operator: Exists}, {key: a, operator: Equal, value: b, effect: NoSchedule}]}`, ""},
		"a toleration of what is avoid": {`{resources: {requests: {cpu: 1}}, tolerations: [{key: a, effect: PreferNoSchedule}]}`, "PreferNoSchedule"},
	} {
		t.Run(name, func(t *testing.T) {
			sent := crdtest.Object{}
			if err := yaml.Unmarshal([]byte(request+"spec: "+tt.spec+"\n"), &sent); err != nil {
				t.Fatal(err)
			}
			c := crdtest.Case{Name: name, Sent: sent, Refused: tt.refused}
			if differs := crdtest.Agree(c, judge.Answer(t.Context(), c)); differs != "" {
				t.Error(differs)
			}
		})
	}
}
