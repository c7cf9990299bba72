import ArgumentParser
import EventLog
import Postgres
import Subscriptions

struct TokenCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "token",
        abstract: "Make, list and revoke the tokens that backends show to the private listener.",
        discussion: """
            Whoever runs this must own the schema: the user that migrates. Servers take a new token, and refuse a \
            revoked one, within about a second.
            """,
        subcommands: [TokenCreate.self, TokenList.self, TokenRevoke.self])
}

extension TokenScope: ExpressibleByArgument {}

struct TokenCreate: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "create",
        abstract: "Print a new token, once: only a digest of it is kept.")

    @Option(help: "read; link, which may also state which ids are a customer's; or admin, which may do everything.")
    var scope: TokenScope

    @Option(help: ArgumentHelp("Who gets it, for `token list`.", valueName: "text"))
    var name = ""

    @OptionGroup var database: DatabaseFlags

    func validate() throws {
        guard name.utf8.count <= 200, !name.unicodeScalars.contains(where: { $0.value < 32 || $0.value == 127 }) else {
            throw ValidationError("--name must be one line of 200 bytes at most.")
        }
    }

    func run() async throws {
        try await reportingFailures {
            var random = SystemRandomNumberGenerator()
            let token = AccessToken(using: &random)
            try await withTokens(database) { try await $0.record(token, scope: scope, name: name) }
            print(token.text)
        }
    }
}

struct TokenList: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "One line a token: id, scope, when it was made and revoked, name.")

    @OptionGroup var database: DatabaseFlags

    func run() async throws {
        try await reportingFailures {
            for token in try await withTokens(database, { try await $0.all() }) {
                let state = token.revokedAt.map { "revoked \($0)" } ?? "in force"
                print(
                    "\(token.id) \(token.scope.rawValue), made \(token.createdAt), \(state)"
                        + (token.name.isEmpty ? "" : ": \(token.name)"))
            }
        }
    }
}

struct TokenRevoke: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "revoke", abstract: "Take a token out of force; it cannot be brought back.")

    @Argument(help: "The token's id, as `token list` shows it: the 12 digits behind slt_.")
    var id: String

    @OptionGroup var database: DatabaseFlags

    func run() async throws {
        try await reportingFailures {
            try await withTokens(database) { try await $0.revoke(id: id) }
            print("token \(id) is revoked")
        }
    }
}

/// As the owner of the schema: the server's roles may not write tokens.
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
