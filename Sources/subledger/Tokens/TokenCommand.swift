import ArgumentParser
import EventLog
import Postgres
import Server

struct TokenCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "token",
        abstract: "Create, list and revoke bearer tokens for the private listener; log in to the console with one.",
        discussion: """
            Requires the database user that owns the schema, which is the one that runs migrations. Servers accept a \
            new token, and reject a revoked one, within about a second.
            """,
        subcommands: [TokenCreate.self, TokenList.self, TokenRevoke.self, TokenLink.self])
}

extension TokenScope: ExpressibleByArgument {}

struct TokenCreate: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "create",
        abstract: "Create a token and print it once; only its digest is stored.")

    @Option(
        help: """
            publishable, for apps, with --app; submit, which may only hand receipts in; read; link, which may do both \
            and write customer links; operate, which may also give access by hand; webhooks, which may only manage \
            endpoints; or admin, which may do everything.
            """)
    var scope: TokenScope

    @Option(help: ArgumentHelp("A description, shown by `token list`.", valueName: "text"))
    var name = ""

    @Option(
        help: ArgumentHelp(
            "The bundle id or package name of the app that contains a publishable token.", valueName: "id"))
    var app: String?

    @OptionGroup var database: DatabaseFlags

    func validate() throws {
        guard (app != nil) == (scope == .publishable) else {
            throw ValidationError("--app goes with --scope publishable, which needs it.")
        }
        guard app.map({ (1...256).contains($0.utf8.count) && !$0.utf8.contains(where: { $0 < 33 }) }) ?? true else {
            throw ValidationError("--app must be a bundle id or a package name.")
        }
        guard name.utf8.count <= 200, !name.unicodeScalars.contains(where: { $0.value < 32 || $0.value == 127 }) else {
            throw ValidationError("--name must be a single line of at most 200 bytes.")
        }
    }

    func run() async throws {
        try await reportingFailures {
            var random = SystemRandomNumberGenerator()
            let token = AccessToken(using: &random)
            try await withTokens(database) { try await $0.record(token, scope: scope, name: name, app: app) }
            print(token.text)
        }
    }
}

struct TokenList: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List tokens, one per line: id, scope, created, revoked, name.")

    @OptionGroup var database: DatabaseFlags

    func run() async throws {
        try await reportingFailures {
            for token in try await withTokens(database, { try await $0.all() }) {
                let state = token.revokedAt.map { "revoked \($0)" } ?? "active"
                print(
                    "\(token.id) \(token.scope.rawValue)\(token.app.map { " of \($0)" } ?? ""), created \(token.createdAt), \(state)"
                        + (token.name.isEmpty ? "" : ": \(token.name)"))
            }
        }
    }
}

struct TokenRevoke: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "revoke", abstract: "Revoke a token permanently.")

    @Argument(help: "The token's id as shown by `token list`: the 12 digits after slt_.")
    var id: String

    @OptionGroup var database: DatabaseFlags

    func run() async throws {
        try await reportingFailures {
            try await withTokens(database) { try await $0.revoke(id: id) }
            print("token \(id) revoked")
        }
    }
}

struct TokenLink: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "link", abstract: "Print an address that logs in to the console once, within an hour.",
        discussion: "The session has the token's scope and ends when the token is revoked.")

    @Argument(help: "The token's id as shown by `token list`: the 12 digits after slt_.")
    var id: String

    @Option(
        help: ArgumentHelp(
            "The address of the private listener. [by its configured host, port and certificate]", valueName: "url"))
    var url: String?

    @OptionGroup var database: DatabaseFlags

    func run() async throws {
        try await reportingFailures {
            let address = try url ?? Settings(flags: database.values).privateURL()
            let ticket = try await withTokens(database) { try await $0.makeTicket(id: id) }
            var base = address[...]
            while base.hasSuffix("/") { base.removeLast() }
            print("\(base)/console/login?ticket=\(ticket.text)")
        }
    }
}

/// Runs the command as the owner of the schema, because the server's roles must not write tokens.
private func withTokens<Value>(
    _ flags: DatabaseFlags, _ command: (TokenStore) async throws -> Value
) async throws -> Value {
    let settings = Settings(flags: flags.values)
    return try await Database.withExisting(settings, logger: try settings.logger()) { database in
        let connection = try await PostgresConnection.connect(
            database.owner, deadline: .now + Database.Limits.connectWaitMax)
        do {
            let value = try await command(TokenStore(connection: connection))
            await connection.close()
            return value
        } catch {
            await connection.close()
            throw error
        }
    }
}
