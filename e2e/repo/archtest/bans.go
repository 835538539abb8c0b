package archtest

// A ban keeps modules of others out of packages.
type ban struct {
	dir     string   // package directory and everything below; elements may be patterns
	imports []string // prefixes of import paths
	why     string
}

// bans hold for everything that a package links, however indirectly.
var bans = []ban{
	{
		dir: "agent",
		imports: []string{
			"github.com/aws/", "cloud.google.com/", "google.golang.org/api/",
			"github.com/luthermonson/go-proxmox", "k8s.io/", "sigs.k8s.io/", "modernc.org/",
		},
		why: "the agent runs in every machine: it stays small and speaks to its server alone",
	},
	{
		dir:     "server",
		imports: computeSDKs(""),
		why:     "only a provider's own build links its compute SDK",
	},
	{
		dir:     "admin",
		imports: computeSDKs(""),
		why:     "the command line calls no cloud's compute API",
	},
	{
		dir:     "providers/local",
		imports: computeSDKs(""),
		why:     "the local build links no cloud's compute SDK",
	},
	{
		dir:     "providers/aws",
		imports: computeSDKs("aws"),
		why:     "a provider's build links no other cloud's compute SDK",
	},
	{
		dir:     "providers/gcp",
		imports: computeSDKs("gcp"),
		why:     "a provider's build links no other cloud's compute SDK",
	},
	{
		dir:     "providers/proxmox",
		imports: computeSDKs("proxmox"),
		why:     "a provider's build links no other cloud's compute SDK",
	},
	{
		dir:     "providers/*/rules",
		imports: []string{"github.com/aws/", "cloud.google.com/", "google.golang.org/api/", "google.golang.org/grpc/", "github.com/luthermonson/go-proxmox"},
		why:     "the rules of every provider are linked by programs that have no business with its cloud",
	},
	{
		dir: "providers/*/cmd/nstance-server-*",
		imports: []string{
			"nstance.dev/server/driver/drivertest", "nstance.dev/providers/aws/awsfake",
			"nstance.dev/providers/gcp/gcpfake", "nstance.dev/providers/proxmox/proxmoxfake",
		},
		why: "a server links nothing that is only for tests",
	},
}

// A reservation keeps an import to few packages.
type reservation struct {
	imports []string // import paths
	within  string   // the tree that the reservation is about
	dirs    []string // who in it may import them itself; test files may too
	why     string
}

// reservations are about what a package imports itself, not about all that it links.
var reservations = []reservation{
	{
		imports: []string{"google.golang.org/grpc/codes", "google.golang.org/grpc/status"},
		within:  "server",
		dirs:    []string{"server/rpc", "server/secrets/gsm", "server/secrets/secretstest/fakecloud"},
		why:     "the codes of gRPC are package rpc's; who decides refuses by package refusal (the secret manager is a client of gRPC)",
	},
	{
		imports: []string{modulePrefix + "protos/nstance/v1"},
		within:  "server",
		dirs:    []string{"server/rpc", "server/operatorapi", "server/agents", "server/filesync", "server/hosts", "server/operatorauth"},
		why:     "messages of the wire contract stay where they are read and written",
	},
	{
		imports: []string{modulePrefix + "protos/nstance/demand/v1alpha1", modulePrefix + "protos/rollup"},
		within:  "server",
		dirs:    []string{"server/rpc", "server/demandapi"},
		why:     "messages of the wire contract stay where they are read and written",
	},
	{
		imports: []string{"os", "os/exec", "io/ioutil", "net", "net/http", "syscall", "golang.org/x/sys/unix"},
		within:  "agent/paver/render",
		why:     "what is written for a machine follows from its assignment and what is known of its host, and can be seen elsewhere",
	},
}

// computeSDKs returns the compute SDKs of all clouds but one.
func computeSDKs(but string) []string {
	sdks := map[string][]string{
		"aws": {
			"github.com/aws/aws-sdk-go-v2/service/ec2",
			"github.com/aws/aws-sdk-go-v2/service/autoscaling",
			"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2",
		},
		"gcp":     {"cloud.google.com/go/compute/apiv1", "google.golang.org/api/compute"},
		"proxmox": {"github.com/luthermonson/go-proxmox"},
	}
	var all []string
	for name, paths := range sdks {
		if name != but {
			all = append(all, paths...)
		}
	}
	return all
}
