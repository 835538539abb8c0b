package archtest

// What a package and a type may have at most before it hides several subjects.
const (
	mostFiles   = 25 // files of a package, tests and generated ones left out
	mostMethods = 40 // methods of a type
	mostFields  = 15 // fields of a struct
	mostInCycle = 5  // files of one package of which each needs each other
)

// A size is how large something is that is larger than that.
type size struct {
	size  int
	fixed bool // it is one subject all the same; smaller is no news
	why   string
}

// large is what is larger, by `PACKAGE: what`, in the words of the test that reads it. What is
// not one subject may only become smaller.
var large = map[string]size{
	"admin/cli: cycle":                   {70, true, "a file for each command, and what they share"},
	"admin/cli: files":                   {70, true, "a file for each command, and what they share"},
	"agent/settings: fields of Settings": {20, true, "settings"},
	"operator/api/infrastructure/v1beta1: fields of DemandSettings":           {16, true, "a kind of Kubernetes"},
	"operator/api/infrastructure/v1beta1: fields of NstanceMachinePoolSpec":   {16, true, "a kind of Kubernetes"},
	"operator/api/infrastructure/v1beta1: fields of NstanceMachinePoolStatus": {19, true, "a kind of Kubernetes"},
	"operator/api/infrastructure/v1beta1: fields of NstanceMachineStatus":     {17, true, "a kind of Kubernetes"},
	"operator/api/infrastructure/v1beta1: fields of NstanceShardGroupStatus":  {21, true, "a kind of Kubernetes"},
	"operator/api/hosts/v1alpha1: fields of HostMachineStatus":                {17, true, "a kind of Kubernetes"},
	"operator/controllers/machine: fields of Observation":                     {16, true, "all that a decision follows from"},
	"operator/controllers/machine: fields of Tried":                           {16, true, "what a decision remembers, by what it tried"},
	"operator/metrics: fields of Metrics":                                     {18, true, "metrics"},
	"operator/config: fields of Settings":                                     {32, true, "settings"},
	"operator/manager: files":                                                 {28, false, "a file for each feature"},
	"operator/controllers/demand/rollup: fields of Options":                   {16, true, "options"},
	"operator/shards: fields of Options":                                      {16, true, "options"},
	"providers/proxmox: fields of Options":                                    {17, true, "options"},
	"server/agents: fields of Options":                                        {23, true, "options"},
	"server/layout: fields of InstanceRecord":                                 {44, true, "a document"},
	"server/cache: fields of Instance":                                        {27, true, "a row"},
	"server/config/document: fields of Demand":                                {16, true, "a document"},
	"server/config/document: fields of Server":                                {26, true, "a document"},
	"server/config/effective: fields of Group":                                {33, true, "a document"},
	"server/config/groupfile: fields of Entry":                                {20, true, "a document"},
	"server/driver: fields of Rules":                                          {17, true, "all that a provider may know of a configuration"},
	"server/fleet: fields of Health":                                          {21, true, "all that a decision follows from"},
	"server/fleet: fields of Instance":                                        {20, true, "all that a decision follows from"},
	"server/lease: fields of Options":                                         {18, true, "options"},
	"server/provisioning: fields of Options":                                  {21, true, "options"},
	"server/removal: fields of Options":                                       {23, true, "options"},
	"server/shard: fields of Options":                                         {21, true, "options"},
}
