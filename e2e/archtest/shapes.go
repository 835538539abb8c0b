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
	"admin/cli: cycle":                   {35, true, "a file for each command, and what they share"},
	"admin/cli: files":                   {38, true, "a file for each command, and what they share"},
	"agent/settings: fields of Settings": {18, true, "settings"},
	"operator/api/infrastructure/v1beta1: fields of NstanceMachinePoolStatus": {17, true, "a kind of Kubernetes"},
	"operator/api/infrastructure/v1beta1: fields of NstanceMachineStatus":     {17, true, "a kind of Kubernetes"},
	"operator/api/infrastructure/v1beta1: fields of NstanceShardGroupStatus":  {19, true, "a kind of Kubernetes"},
	"operator/controllers/machine: fields of Observation":                     {16, true, "all that a decision follows from"},
	"operator/controllers/machine: fields of Tried":                           {16, true, "what a decision remembers, by what it tried"},
	"operator/controllers/machinepool: cycle":                                 {13, false, "to be taken apart"},
	"operator/controllers/machinepool: methods of Reconciler":                 {41, false, "to be taken apart"},
	"operator/controllers/machinepool: methods of state":                      {46, false, "to be taken apart"},
	"operator/controllers/shardgroup: fields of part":                         {16, false, "to be taken apart"},
	"operator/drain: cycle":                                                   {7, false, "to be taken apart"},
	"operator/drain: fields of Observation":                                   {16, true, "all that a decision follows from"},
	"operator/metrics: fields of Metrics":                                     {18, true, "metrics"},
	"operator/manager: fields of process":                                     {23, false, "to be taken apart"},
	"operator/config: fields of Settings":                                     {32, true, "settings"},
	"operator/shards: cycle":                                                  {6, false, "to be taken apart"},
	"providers/aws: methods of Driver":                                        {44, false, "to be taken apart"},
	"providers/gcp: methods of Driver":                                        {54, false, "to be taken apart"},
	"providers/local: cycle":                                                  {7, false, "to be taken apart"},
	"providers/local: methods of Driver":                                      {56, false, "to be taken apart"},
	"providers/proxmox: cycle":                                                {8, false, "to be taken apart"},
	"providers/proxmox: fields of Options":                                    {17, true, "options"},
	"providers/proxmox: fields of job":                                        {16, false, "to be taken apart"},
	"providers/proxmox: files":                                                {29, false, "to be taken apart"},
	"providers/proxmox: methods of Driver":                                    {48, false, "to be taken apart"},
	"server/bucket: fields of InstanceRecord":                                 {36, true, "a document"},
	"server/cache: cycle":                                                     {10, false, "to be taken apart"},
	"server/cache: fields of Cache":                                           {16, false, "to be taken apart"},
	"server/cache: fields of Instance":                                        {26, true, "a row"},
	"server/cache: fields of writer":                                          {16, false, "to be taken apart"},
	"server/cache: methods of Cache":                                          {58, false, "to be taken apart"},
	"server/config: cycle":                                                    {29, false, "to be taken apart"},
	"server/config: fields of DynamicGroup":                                   {16, true, "a document"},
	"server/config: fields of EffectiveGroup":                                 {28, true, "a document"},
	"server/config: fields of Server":                                         {25, true, "a document"},
	"server/config: files":                                                    {38, false, "to be taken apart"},
	"server/config: methods of Config":                                        {51, false, "to be taken apart"},
	"server/config: methods of checker":                                       {73, false, "to be taken apart"},
	"server/driver: fields of Rules":                                          {16, true, "all that a provider may know of a configuration"},
	"server/fleet: cycle":                                                     {10, false, "to be taken apart"},
	"server/fleet: fields of Health":                                          {20, true, "all that a decision follows from"},
	"server/fleet: fields of Instance":                                        {18, true, "all that a decision follows from"},
	"server/fleet: methods of planner":                                        {41, false, "to be taken apart"},
	"server/lease: cycle":                                                     {7, false, "to be taken apart"},
	"server/lease: fields of Elector":                                         {17, false, "to be taken apart"},
	"server/lease: fields of Options":                                         {17, true, "options"},
	"server/lease: methods of Elector":                                        {44, false, "to be taken apart"},
	"server/rpc: cycle":                                                       {10, false, "to be taken apart"},
	"server/serve: cycle":                                                     {13, false, "to be taken apart"},
	"server/serve: fields of process":                                         {24, false, "to be taken apart"},
	"server/serve: methods of process":                                        {56, false, "to be taken apart"},
	"server/shard: cycle":                                                     {55, false, "to be taken apart"},
	"server/shard: fields of Metrics":                                         {25, true, "metrics"},
	"server/shard: fields of Options":                                         {21, true, "options"},
	"server/shard: fields of Reign":                                           {36, false, "to be taken apart"},
	"server/shard: fields of session":                                         {22, false, "to be taken apart"},
	"server/shard: files":                                                     {57, false, "to be taken apart"},
	"server/shard: methods of Reign":                                          {177, false, "to be taken apart"},
	"server/supply: cycle":                                                    {6, false, "to be taken apart"},
}
