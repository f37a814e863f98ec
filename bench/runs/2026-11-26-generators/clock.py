import json,subprocess
import sys; BENCH=[sys.argv[1],"bench"]; NODES=sys.argv[2]
nodes=subprocess.Popen(["nice","-n","-20","taskset","-c","0",NODES,"nodes","--ports","0","--data","3"],stdout=subprocess.PIPE,text=True)
port=json.loads(nodes.stdout.readline())["ports"][0]
try:
    for rate,P,arr in [(9000,1,"even"),(200000,16,"even")]:
        for rnd in range(3):
            subprocess.run(["taskset","-c","1","chrt","-f","50",*BENCH,"-p",str(port),"--rate",str(rate),"-P",str(P),"--arrivals",arr,"-w","1s","-T","3s","-t","get","--json","report.json"],stdout=subprocess.DEVNULL)
            r=json.load(open("report.json"))
            l=r["late_us"]; a=r["latency_us"]
            print(json.dumps({"rate":rate,"pipeline":P,"arrivals":arr,"answered_per_s":round(r["rate"]),"unanswered":r["unanswered"],"late_us":{k:l[k] for k in ["mean","p50","p99","p99.9","max"]},"latency_us":{k:a[k] for k in ["p50","p99","p99.9","max"]}}),flush=True)
finally:
    nodes.terminate(); nodes.wait()
