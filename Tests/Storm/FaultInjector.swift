import Foundation
import Postgres
import Simulation
import TestSupport

/// Injects the faults of a plan one after another and reverts each of them.
struct FaultInjector: Sendable {
    let database: StormDatabase
    let servers: [StormServer]
    let report: StormReport

    /// How long to wait for the restart of a terminated server. Slow bodies can delay it; later faults do not wait.
    private static let restartMax = Duration.seconds(2)

    func run(_ plan: FaultPlan, until deadline: ContinuousClock.Instant, seed: UInt64) async {
        var random = SplitMix64(seed: seed, 5)
        for fault in plan {
            guard ContinuousClock.now < deadline else { break }
            await inject(fault)
            try? await Task.sleep(for: .milliseconds(Int.random(in: 50...250, using: &random)))
        }
        heal()
    }

    private func heal() {
        for server in servers {
            server.proxy.heal()
            server.signal(SIGCONT)
        }
    }

    private func inject(_ fault: Fault) async {
        report.fault(describe(fault))
        do {
            switch fault {
            case .killServer: await end(SIGKILL)
            case .terminateServer: await end(SIGTERM)
            case .pauseServer(let milliseconds, let server):
                servers[server].signal(SIGSTOP)
                await wait(milliseconds)
                servers[server].signal(SIGCONT)
            case .killBackend(let number):
                let backends = try await database.backends()
                if !backends.isEmpty { kill(backends[number % backends.count], SIGKILL) }
            case .killPostmaster:
                if let postmaster = await database.server.postmasterPID { kill(postmaster, SIGKILL) }
            case .lockHead(let milliseconds):
                try await hold("lock table subledger.stream_head in access exclusive mode", milliseconds)
            case .idleTransaction(let milliseconds):
                try await hold("create table storm_idle (number integer)", milliseconds)
            case .fillDisk(let milliseconds): try await fillDisk(milliseconds)
            case .proxy(let fault, let milliseconds, let server, let breaks):
                await disturb(fault, milliseconds, servers[server], breaks)
            }
        } catch {
            // For example, the database is still recovering from the previous fault.
            report.log("  fault not injected: \(error)")
        }
    }

    private func end(_ signal: Int32) async {
        let server = servers[Fault.mortal]
        let starts = server.starts
        server.signal(signal)
        _ = try? await eventually(within: Self.restartMax, "\(server.name) has restarted") {
            server.starts > starts ? true : nil
        }
    }

    /// Keeps a transaction open after the SQL.
    private func hold(_ sql: String, _ milliseconds: Int) async throws {
        let connection = try await database.connect()
        do {
            try await connection.begin(deadline: .now + .seconds(5))
            try await connection.script(sql, deadline: .now + .seconds(10))
        } catch {
            await connection.close()
            throw error
        }
        await wait(milliseconds)
        await connection.close()
    }

    private func fillDisk(_ milliseconds: Int) async throws {
        let path = database.folder + "/ballast"
        let descriptor = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw POSIXError(.EIO) }
        // In ever smaller pieces until the disk is full.
        var piece = 1 << 20
        let bytes = [UInt8](repeating: 0, count: piece)
        while piece > 0 {
            if write(descriptor, bytes, piece) != piece { piece /= 2 }
        }
        close(descriptor)
        await wait(milliseconds)
        unlink(path)
    }

    private func disturb(_ fault: FaultyProxy.Fault, _ milliseconds: Int, _ server: StormServer, _ breaks: Bool) async {
        let cuts = server.proxy.cuts
        if case .cut(let moment, _) = fault, [.beforeParse, .afterParse].contains(moment) {
            // Only new connections prepare statements.
            server.proxy.inject(.reset)
            await wait(50)
        }
        server.proxy.inject(fault)
        switch fault {
        case .cut, .cutAfter:
            // Ends as soon as a connection is cut.
            let end = ContinuousClock.now + .milliseconds(milliseconds)
            while server.proxy.cuts == cuts, ContinuousClock.now < end { await wait(10) }
            if server.proxy.cuts == cuts { report.log("  no connection reached the moment") }
        default: await wait(milliseconds)
        }
        if breaks {
            server.proxy.inject(.reset)
            await wait(50)
        }
        server.proxy.heal()
    }

    private func wait(_ milliseconds: Int) async {
        try? await Task.sleep(for: .milliseconds(milliseconds))
    }

    private func name(_ fault: FaultyProxy.Fault) -> String {
        guard case .cut(let moment, let application) = fault else { return "\(fault)" }
        return "cut \(moment.rawValue)\(application.map { " of \($0)" } ?? "")"
    }

    private func describe(_ fault: Fault) -> String {
        switch fault {
        case .killServer: "kill -9 of \(servers[Fault.mortal].name)"
        case .terminateServer: "SIGTERM to \(servers[Fault.mortal].name)"
        case .pauseServer(let milliseconds, let server): "SIGSTOP to \(servers[server].name) for \(milliseconds) ms"
        case .killBackend: "kill -9 of a backend"
        case .killPostmaster: "kill -9 of the postmaster"
        case .lockHead(let milliseconds): "stream heads locked for \(milliseconds) ms"
        case .idleTransaction(let milliseconds): "transaction idle for \(milliseconds) ms"
        case .fillDisk(let milliseconds): "disk full for \(milliseconds) ms"
        case .proxy(let fault, let milliseconds, let server, let breaks):
            "proxy of \(servers[server].name): \(name(fault)), \(milliseconds) ms\(breaks ? ", then reset" : "")"
        }
    }
}
