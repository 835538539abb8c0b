package document

import (
	"reflect"

	"nstance.dev/server/config/schema"
)

// Config is the static configuration of one shard, with its defaults filled in. Read one
// with [Decode].
type Config struct {
	// The shard itself: identity, cloud, addresses, intervals, elections.
	Server Server `json:"server"`
	// Tenants besides "default", which always exists and must not be listed; its quota is server.default_quota.
	Tenants map[string]Tenant `json:"tenants,omitempty"`
	// Load balancers that groups may register their instances with, by key.
	LoadBalancers map[string]LoadBalancer `json:"load_balancers,omitempty"`
	// Machine images that are looked up by filters and used in templates as {{ .Image.KEY }}.
	Images map[string]Image `json:"images,omitempty"`
	// Certificates that the cluster's CA issues to machines, by key. The key "ca" is the template of the CA's own certificate.
	Certificates map[string]Certificate `json:"certificates,omitempty"`
	// The lowest layer, under every template.
	Defaults Defaults `json:"defaults,omitzero"`
	// Kinds of machine, by key. A group is a number of machines of one template.
	Templates map[string]Template `json:"templates,omitempty"`
	// Static groups, by tenant, then by key.
	Groups map[string]map[string]Group `json:"groups,omitempty"`
}

// Tenant is what the configuration says of one tenant.
type Tenant struct {
	// What the tenant may have in this shard.
	Quota Quota `json:"quota,omitzero"`
	// Pools that the tenant's dynamic groups may use, of server.subnet_pools. Default: server.dynamic_subnet_pools.
	SubnetPools []string `json:"subnet_pools,omitempty"`
}

// Defaults is the layer under every template.
type Defaults struct {
	// Arguments of the cloud's create call; merged key by key under those of the template.
	Args map[string]any `json:"args,omitempty"`
	// Variables for templates; merged under those of the template. Numbers and booleans become strings.
	Vars Vars `json:"vars,omitempty" jsonc:"scalars"`
	// Used by templates that have none of their own.
	Userdata *Userdata `json:"userdata,omitempty"`
}

// Template describes a kind of machine.
type Template struct {
	// Three lower-case letters: the prefix of the machines' ids. Templates may share it; "opr" is reserved.
	Kind string `json:"kind" jsonschema:"pattern=^[a-z]{3}$"`
	// Processor architecture; every instance type of the template must have it.
	Arch string `json:"arch" jsonschema:"enum=amd64,enum=arm64"`
	// Instance type, or an ordered list of them: the first that has room is taken. Required here or in each group.
	InstanceType InstanceTypes `json:"instance_type,omitempty"`
	// What a dynamic group or a single instance may ask for. Empty: any type of the architecture.
	AllowedInstanceTypes []string `json:"allowed_instance_types,omitempty"`
	// Size of groups that do not say theirs; 0 to 10000. Default 0.
	Size *int `json:"size,omitempty" jsonschema:"minimum=0,maximum=10000"`
	// Key of server.subnet_pools. Required here or in each group.
	SubnetPool string `json:"subnet_pool,omitempty"`
	// Arguments of the cloud's create call, with the provider's own names; strings are templates. Objects are merged over defaults.args, arrays replace.
	Args map[string]any `json:"args,omitempty"`
	// Variables for templates, merged over defaults.vars.
	Vars Vars `json:"vars,omitempty" jsonc:"scalars"`
	// What the machine runs at its first boot; replaces defaults.userdata as a whole.
	Userdata *Userdata `json:"userdata,omitempty"`
	// Files that the agent keeps on the machine, by file name; at most 512.
	Files map[string]File `json:"files,omitempty"`
	// Tenants that may use it; for the others it does not exist. Default, where the shard has several tenants: those whose static groups use it, and server.admin_tenants.
	Tenants []string `json:"tenants,omitempty"`
	// Where the shard has several tenants: arguments that carry rights and that callers of the API may set nevertheless, or variables fill. "files.NAME" and "certificates.KEY" let variables fill the source of a file, the names in a certificate.
	APIArgs []string `json:"api_args,omitempty"`
	// What the Kubernetes Nodes of the machines will be. New machines get a change of it.
	Node *Node `json:"node,omitempty"`
	// Whose machines of demand groups may serve again after they have left a cluster: that of their tenant alone (tenant, the default), or any (any). Needs a machine that keeps nothing of the first.
	Reuse string `json:"reuse,omitempty" jsonschema:"enum=tenant,enum=any"`
	// Kubernetes nodes in node machines on the machines, built from MachineConfigurations.
	Machine *Machine `json:"machine,omitempty"`
}

// Values of [Template].Reuse.
const (
	ReuseTenant = "tenant"
	ReuseAny    = "any"
)

// Userdata is the script or document that a machine gets at its first boot.
type Userdata struct {
	// Where the text comes from: "inline" (default) or "url" (https, fetched for each create or burst of them; where that fails, a copy up to an hour old serves).
	Source string `json:"source,omitempty" jsonschema:"enum=inline,enum=url"`
	// How the text is encoded: "plain" (default), "base64", "base64+gzip", or "gzip" (with source url only). It is decoded before it is rendered.
	Encoding string `json:"encoding,omitempty" jsonschema:"enum=plain,enum=base64,enum=gzip,enum=base64+gzip"`
	// The text, a template; with source "url" the address.
	Content string `json:"content"`
}

// Sources and encodings of [Userdata].
const (
	SourceInline = "inline"
	SourceURL    = "url"

	EncodingPlain      = "plain"
	EncodingBase64     = "base64"
	EncodingGzip       = "gzip"
	EncodingBase64Gzip = "base64+gzip"
)

// File is a file that the agent keeps on a machine. Its kind decides which
// other fields count.
type File struct {
	// What the file is made from: certificate, secret, storage, env, json or string.
	Kind string `json:"kind" jsonschema:"enum=certificate,enum=secret,enum=storage,enum=env,enum=json,enum=string"`
	// kind certificate: key of certificates; env: object of strings; json: any JSON; string: the text. Strings are templates, but for the certificate's key.
	Template any `json:"template,omitempty"`
	// kind secret: name in the secrets store: 1 to 128 letters, digits and . _ -; storage: key of an object in the shard's bucket, a template, under "files/".
	Source string `json:"source,omitempty"`
	// kind certificate: whose key is certified.
	Key *FileKey `json:"key,omitempty"`
}

// Kinds of [File].
const (
	FileCertificate = "certificate"
	FileSecret      = "secret"
	FileStorage     = "storage"
	FileEnv         = "env"
	FileJSON        = "json"
	FileString      = "string"
)

// FileKey names the key pair that a certificate is issued for.
type FileKey struct {
	// Who holds the private key: "agent", the only one so far. Default "agent".
	Source string `json:"source,omitempty" jsonschema:"enum=agent"`
	// The same as source.
	From string `json:"from,omitempty" jsonschema:"enum=agent"`
	// File name of the public key on the machine, such as "kubelet.client.pub".
	Name string `json:"name"`
}

// Group is a static group: machines of a template, so many of them, or as many as are needed.
type Group struct {
	// Key of templates.
	Template string `json:"template"`
	// Whether the size is set here or by the API (fixed, the default), or follows from what the tenant's Kubernetes cluster needs (demand). A change moves no machine.
	Mode string `json:"mode,omitempty" jsonschema:"enum=fixed,enum=demand"`
	// With mode demand: bounds and manners. A group of this mode has no size.
	Demand *Demand `json:"demand,omitempty"`
	// How many machines; 0 to 10000. Default: the template's. Not with mode demand.
	Size *int `json:"size,omitempty" jsonschema:"minimum=0,maximum=10000"`
	// Instance type or ordered list of them; with mode demand the order means nothing. Default: the template's.
	InstanceType InstanceTypes `json:"instance_type,omitempty"`
	// With mode demand, instead of instance_type: what the types have to be, out of all that the provider offers.
	InstanceRequirements *InstanceRequirements `json:"instance_requirements,omitempty"`
	// Key of server.subnet_pools. Default: the template's.
	SubnetPool string `json:"subnet_pool,omitempty"`
	// How long a machine may take to hand over its work before it is deleted. "0s" deletes at once. Default: server.drain_timeout.
	DrainTimeout *Duration `json:"drain_timeout,omitempty"`
	// Keys of load_balancers that the group's machines are registered with.
	LoadBalancers []string `json:"load_balancers,omitempty"`
	// Arguments of the create call, merged over the template's.
	Args map[string]any `json:"args,omitempty"`
	// Variables, merged over the template's.
	Vars Vars `json:"vars,omitempty" jsonc:"scalars"`
	// Bounds that differ from server.rails.
	Rails *GroupRails `json:"rails,omitempty"`
	// What the Kubernetes Nodes of the machines will be, laid over the template's. New machines get a change of it.
	Node *Node `json:"node,omitempty"`
}

// Demands says whether the group's size follows from what is needed.
func (g *Group) Demands() bool { return g.Mode == ModeDemand }

// LoadBalancer is a target that machines register with. Its provider decides
// which fields count.
type LoadBalancer struct {
	// Must equal server.provider.kind: aws, google or local.
	Provider string `json:"provider"`
	// Args are the provider's own members, as they stand. Package rules of the provider reads them.
	Args map[string]any `json:"-" jsonc:"others"`
	// Tenants that may use it; for the others it does not exist. Default, where the shard has several tenants: those whose static groups use it, and server.admin_tenants.
	Tenants []string `json:"tenants,omitempty"`
}

// Others is the type of the members that providers add; see [jsonc.Open].
func (LoadBalancer) Others() reflect.Type { return schema.Known().LoadBalancer }

// Image is a machine image that is looked up, so that new machines get the
// newest. A new image alone replaces no machine.
type Image struct {
	// Must equal server.provider.kind.
	Provider string `json:"provider"`
	// What the image must match; all of them.
	Filters []ImageFilter `json:"filters,omitempty"`
	// Accounts that may own it.
	Owners []string `json:"owners,omitempty"`
	// What the matches are ordered by. Default creation-date.
	Sort string `json:"sort,omitempty" jsonschema:"enum=creation-date,enum=name"`
	// The first in this order is taken. Default desc: the newest.
	Order string `json:"order,omitempty" jsonschema:"enum=asc,enum=desc"`
	// Image id to use when the look-up fails and no earlier result is known.
	Fallback string `json:"fallback,omitempty"`
}

// ImageFilter is one condition on an image: a property and its possible values.
type ImageFilter struct {
	// Property, in the provider's words.
	Name string `json:"name"`
	// Values, any of which matches.
	Values []string `json:"values"`
}

// Certificate says what a certificate that is issued to a machine contains.
// cn, organization, dns, ip and uri are templates; empty results are left out.
type Certificate struct {
	// What it may be used for: client, server, or peer (both). Not needed for "ca".
	Kind string `json:"kind,omitempty" jsonschema:"enum=client,enum=server,enum=peer"`
	// Common name.
	CN string `json:"cn,omitempty"`
	// Organizations.
	Organization []string `json:"organization,omitempty"`
	// Countries.
	Country []string `json:"country,omitempty"`
	// Provinces or states.
	Province []string `json:"province,omitempty"`
	// Localities.
	Locality []string `json:"locality,omitempty"`
	// Street addresses.
	Street []string `json:"street,omitempty"`
	// Postal codes.
	PostalCode []string `json:"postalCode,omitempty"`
	// DNS names.
	DNS []string `json:"dns,omitempty"`
	// IP addresses.
	IP []string `json:"ip,omitempty"`
	// URIs.
	URI []string `json:"uri,omitempty"`
	// Life in hours, at most 87600, of "ca" 876000. Default, also for 0: 8760 (a year); for "ca" 87600.
	TTL Hours `json:"ttl,omitempty" jsonschema:"minimum=0,maximum=876000"`
	// Tenants whose machines may get it: no template that others may use can name it. Default: those of the templates that name it.
	Tenants []string `json:"tenants,omitempty"`
}

// Kinds of [Certificate], and the key that is reserved for the CA's own.
const (
	CertClient = "client"
	CertServer = "server"
	CertPeer   = "peer"

	CertificateCA = "ca"
)
