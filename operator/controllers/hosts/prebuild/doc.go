// Package prebuild has hosts prepare the newest version of their MachineConfiguration in the background, where its
// spec.prebuild says so.
//
// Package hosts/prebuild decides; this one reads, writes and tells. All work on one configuration is serial. What is
// prepared on a machine stands in its status.prebuild, and is written before its host is asked, so the bound on
// how many prepare at once holds whatever becomes of this process. Caches come late: what it has written itself
// counts until they have it, and before the first machine is begun the API server itself is asked.
//
// A version is locked before any of its content goes anywhere. Of Secrets only the pull secret of the machine's image
// goes along, and is kept nowhere here.
//
// It owns status.prebuild of machines, and condition Prebuilt of configurations.
//
// Rights: machineconfigurations list watch, their status patch; machineconfigurationversions list watch; hostmachines
// list watch, their status patch; secrets get of the operator's namespace; events create patch.
package prebuild
