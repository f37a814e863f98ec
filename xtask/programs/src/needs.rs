//! Programs that the tests and the demo call, and their installation.

use anyhow::{Context, Result, bail, ensure};

use crate::process::{self, command};

/// A program, or a part of one, that must be installed.
#[derive(Clone, Copy)]
pub struct Need {
    /// A command that succeeds where it is there.
    probe: &'static [&'static str],
    /// The Debian package that brings it.
    package: &'static str,
}

/// Nodes. Debian also starts one as a service; nothing here uses that one.
pub const REDIS_SERVER: Need = Need { probe: &["redis-server", "--version"], package: "redis-server" };
/// The client that users type commands into.
pub const REDIS_CLI: Need = Need { probe: &["redis-cli", "--version"], package: "redis-tools" };
/// twemproxy: the reference of our ring.
pub const NUTCRACKER: Need = Need { probe: &["nutcracker", "--version"], package: "nutcracker" };
/// A proxy that forwards bytes without reading them: one of the rivals of `cargo xtask bench`.
pub const NGINX: Need = Need { probe: &["nginx", "-v"], package: "nginx" };
/// Where Debian puts the part of nginx that forwards TCP.
pub const NGINX_STREAM_MODULE: &str = "/usr/lib/nginx/modules/ngx_stream_module.so";
/// The stream module of nginx.
pub const NGINX_STREAM: Need =
    Need { probe: &["test", "-e", NGINX_STREAM_MODULE], package: "libnginx-mod-stream" };
/// Another such proxy.
pub const HAPROXY: Need = Need { probe: &["haproxy", "-v"], package: "haproxy" };
/// A Python that can make a venv, for redis-py.
pub const PYTHON: Need =
    Need { probe: &["python3", "-c", "import venv, ensurepip"], package: "python3-venv" };
/// The interpreter of Redis's own suite.
pub const TCLSH: Need = Need { probe: &["sh", "-c", "echo exit | tclsh"], package: "tcl" };
/// Builds hiredis.
pub const MAKE: Need = Need { probe: &["make", "--version"], package: "make" };
/// Modules that the tests of Redis.pm load, and the library that has the same tests.
pub const FOR_REDIS_PM: &[Need] = &[
    Need { probe: &["perl", "-MTest::Fatal", "-e1"], package: "libtest-fatal-perl" },
    Need { probe: &["perl", "-MTest::Deep", "-e1"], package: "libtest-deep-perl" },
    Need { probe: &["perl", "-MTest::TCP", "-e1"], package: "libtest-tcp-perl" },
    Need { probe: &["perl", "-MTest::SharedFork", "-e1"], package: "libtest-sharedfork-perl" },
    Need { probe: &["perl", "-MIO::String", "-e1"], package: "libio-string-perl" },
    Need { probe: &["perl", "-MParallel::ForkManager", "-e1"], package: "libparallel-forkmanager-perl" },
    Need { probe: &["perl", "-MIPC::Cmd", "-e1"], package: "perl" },
    PERL_REDIS_FAST,
];
/// Counts instructions. It runs on Linux; other systems do not need it.
pub const VALGRIND: Need = Need { probe: &["valgrind", "--version"], package: "valgrind" };
/// Loses packets of a test's own network, on Linux.
pub const NFT: Need = Need { probe: &["nft", "--version"], package: "nftables" };
/// Makes such networks, and narrow links.
pub const TC: Need = Need { probe: &["tc", "-V"], package: "iproute2" };
/// Takes debug symbols out of a program.
pub const BINUTILS: Need = Need { probe: &["objcopy", "--version"], package: "binutils" };
/// Unpacks and installs packages of Debian.
pub const DPKG: Need = Need { probe: &["dpkg-deb", "--version"], package: "dpkg" };
/// A C++ compiler: libFuzzer is built from source.
pub const CXX: Need = Need { probe: &["c++", "--version"], package: "g++" };

/// The client library that programs in Perl have used most.
const PERL_REDIS: Need = Need { probe: &["perl", "-MRedis", "-e", "1"], package: "libredis-perl" };
/// Its faster twin.
const PERL_REDIS_FAST: Need =
    Need { probe: &["perl", "-MRedis::Fast", "-e", "1"], package: "libredis-fast-perl" };

/// The interpreter of Ruby, with its client library.
const RUBY_REDIS: Need = Need { probe: &["ruby", "-rredis", "-e", "1"], package: "ruby-redis" };
/// The job queue that uses it.
const RUBY_SIDEKIQ: Need = Need { probe: &["ruby", "-rsidekiq", "-e", "1"], package: "ruby-sidekiq" };
/// PHP, in which users of its libraries have a program of their own.
const PHP: Need =
    Need { probe: &["php", "-r", "exit(function_exists('pcntl_fork') ? 0 : 1);"], package: "php-cli" };
/// Its client library in C.
const PHP_REDIS: Need =
    Need { probe: &["php", "-r", "exit(class_exists('Redis') ? 0 : 1);"], package: "php-redis" };
/// Its client library in PHP.
const PHP_PREDIS: Need =
    Need { probe: &["php", "-r", "require 'Predis/Autoloader.php';"], package: "php-predis" };

/// Makes metrics of a Redis.
const REDIS_EXPORTER: Need =
    Need { probe: &["prometheus-redis-exporter", "-version"], package: "prometheus-redis-exporter" };

/// Reads metrics, and checks them.
const PROMETHEUS: Need = Need { probe: &["promtool", "--version"], package: "prometheus" };

/// Shows the page of the admin listener.
const CHROMIUM: Need = Need { probe: &["chromium", "--version"], package: "chromium" };
/// Drives it.
const CHROMEDRIVER: Need = Need { probe: &["chromedriver", "--version"], package: "chromium-driver" };

/// The terminal in which `shardis top` is tried.
const TMUX: Need = Need { probe: &["tmux", "-V"], package: "tmux" };

/// All packages for `cargo xtask test`. They are known at its start, so that it does not stop for one after minutes.
pub fn for_tests() -> Vec<Need> {
    let mut needs = vec![REDIS_CLI, NUTCRACKER, CXX];
    needs.extend(for_clients());
    // Other systems have no source either. There the suites that come from Debian are skipped, instructions are not counted,
    // and no packets are lost.
    if has_apt_get() {
        needs.extend([
            TCLSH,
            MAKE,
            VALGRIND,
            NFT,
            TC,
            REDIS_EXPORTER,
            PROMETHEUS,
            CHROMIUM,
            CHROMEDRIVER,
            TMUX,
        ]);
        needs.extend(FOR_REDIS_PM);
    }
    needs
}

/// Packages of the system for the programs of `cargo xtask clients`. Languages that are not among these are used if they are
/// installed.
pub fn for_clients() -> Vec<Need> {
    let mut needs = vec![REDIS_SERVER, PYTHON];
    // On other systems these have no common name: these languages are skipped there.
    if has_apt_get() {
        needs.extend([PERL_REDIS, PERL_REDIS_FAST, RUBY_REDIS, RUBY_SIDEKIQ, PHP, PHP_REDIS, PHP_PREDIS]);
    }
    needs
}

/// Installs those of `needs` that are not there, with apt-get.
pub fn install(needs: &[Need]) -> Result<()> {
    let packages = missing(needs);
    if packages.is_empty() {
        return Ok(());
    }
    let list = packages.join(" ");
    if !has_apt_get() {
        bail!(
            "not on this machine: {list} (Debian's names), and there is no apt-get to install them; please do"
        );
    }
    let is_root = process::read(command("id").arg("-u"))?.trim() == "0";
    let prefix: &[&str] = if is_root { &[] } else { &["sudo"] };
    println!("needs: installing {list} with {}", [prefix, &["apt-get"]].concat().join(" "));
    apt_get(prefix, &["update", "-qq"])?;
    apt_get(prefix, &[&["install", "-y", "-qq", "--no-install-recommends"], &packages[..]].concat())?;
    let still = missing(needs);
    ensure!(still.is_empty(), "installed, and still not to be found: {}; is it in PATH?", still.join(" "));
    Ok(())
}

fn has_apt_get() -> bool {
    process::succeeds(command("apt-get").arg("--version"))
}

/// The packages of those `needs` that are not there.
pub fn missing(needs: &[Need]) -> Vec<&'static str> {
    let absent = |need: &&Need| !process::succeeds(command(need.probe[0]).args(&need.probe[1..]));
    needs.iter().filter(absent).map(|need| need.package).collect()
}

fn apt_get(prefix: &[&str], args: &[&str]) -> Result<()> {
    let words = [prefix, &["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"], args].concat();
    process::run(command(words[0]).args(&words[1..])).context("please install the packages yourself")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_named_by_its_package() {
        let there = Need { probe: &["true"], package: "coreutils" };
        let gone = Need { probe: &["no-such-program-anywhere", "--version"], package: "nowhere" };
        let broken = Need { probe: &["false"], package: "broken" };
        assert_eq!(missing(&[there, gone, broken]), ["nowhere", "broken"]);
    }
}
