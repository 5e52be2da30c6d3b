// Package scope splits a trace into the job and the system around it.
//
// A recorder sees all that a program does: the loader that reads libraries, the MPI
// library that reads its settings, the launcher that reads /proc. Users cannot change
// that, and in a short run it hides the job's own files. Apply sets it apart:
//
//	job, aside := scope.Apply(trace, scope.Options{})
//
// # The system's files
//
// These are set apart by name:
//
//   - /proc, /sys, the devices in /dev that are no disks, and / itself;
//   - sockets, pipes, anonymous memory, and standard streams that go to no file;
//   - session directories and shared memory of MPI libraries, in /tmp, /dev/shm or
//     elsewhere, also after their removal.
//
// These are set apart if the job only reads them. A job that writes there made the file:
//
//   - /etc, /usr, /bin, /sbin, /lib, /lib64 and the like, /boot, /run, /snap, /nix/store;
//   - elsewhere, as in /opt or a home: libraries (*.so, *.so.6), compiled Python
//     (*.pyc), Java (*.jar), packages of Python, Perl, R, Julia and Spack, locales,
//     settings of MPI libraries;
//   - the programs that were executed, if the trace names them (Program).
//
// Disks (/dev/sda, /dev/nvme0n1) and the other files in /dev/shm are the job's.
//
// # The system's processes
//
// Launchers of MPI jobs and their proxies have Rank iotrace.None, and the name of their
// program as Node. All that they do is set apart. A process that is no MPI rank, and
// has done nothing to the files of the job, does not count as its process either.
//
// # Promises
//
//   - Options.Exclude goes before Options.Include, and that before the rules above.
//   - If nothing of the job would be left, everything is.
//   - Events keep their order. Nothing but events, counters, renames, stripes and
//     warnings of the system goes: the other warnings, properties and the time of the
//     job stay.
//   - Apply takes no memory that grows with the events, and looks at no event if no
//     file and no process can be the system's.
package scope
